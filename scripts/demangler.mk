# libiberty's demanglers, as core/demangle.c calls them. Of these members alone: the archive's xmalloc,
# which they refer to, would end the process where there is no memory.
DEMANGLER_ARCHIVE := $(shell $(CC) -print-file-name=libiberty.a)
DEMANGLER_MEMBERS := cp-demangle.o rust-demangle.o d-demangle.o safe-ctype.o
DEMANGLER_ENTRIES := cplus_demangle_v3_callback rust_demangle_callback dlang_demangle
DEMANGLER_RENAMED := malloc=demangle_malloc xmalloc=demangle_xmalloc realloc=demangle_realloc \
                     xrealloc=demangle_xrealloc free=demangle_free strcmp=demangle_strcmp \
                     strncmp=demangle_strncmp __sprintf_chk=demangle_sprintf \
                     __snprintf_chk=demangle_snprintf __stack_chk_fail=demangle_stack_broken

FOREIGN_OBJECTS += $(B)/demangler.o

$(B)/demangler.o: $(DEMANGLER_ARCHIVE) scripts/demangler.mk scripts/foreign.mk
	@rm -rf $(B)/demangler && mkdir -p $(B)/demangler
	@echo "  FOREIGN $@"
	$(Q)$(AR) x --output=$(B)/demangler $(DEMANGLER_ARCHIVE) $(DEMANGLER_MEMBERS)
	$(Q)$(LD) -r -o $@ $(DEMANGLER_MEMBERS:%=$(B)/demangler/%)
	$(call foreign_names,$(DEMANGLER_ENTRIES),$(DEMANGLER_RENAMED))

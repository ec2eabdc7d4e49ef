# libiberty's demanglers as one object that knows no libc: the members of Debian's static archive (it
# is position independent) that core/demangle.c needs, their references renamed to functions there,
# all other names local.
OBJCOPY ?= objcopy
DEMANGLER_ARCHIVE := $(shell $(CC) -print-file-name=libiberty.a)
DEMANGLER_MEMBERS := cp-demangle.o rust-demangle.o d-demangle.o safe-ctype.o
DEMANGLER_ENTRIES := cplus_demangle_v3_callback rust_demangle_callback dlang_demangle

$(B)/demangler.o: $(DEMANGLER_ARCHIVE) scripts/demangler.mk
	@rm -rf $(B)/demangler && mkdir -p $(B)/demangler
	@echo "  FOREIGN $@"
	$(Q)$(AR) x --output=$(B)/demangler $(DEMANGLER_ARCHIVE) $(DEMANGLER_MEMBERS)
	$(Q)$(LD) -r -o $@ $(DEMANGLER_MEMBERS:%=$(B)/demangler/%)
	$(Q)$(OBJCOPY) $(DEMANGLER_ENTRIES:%=--keep-global-symbol=%) \
	    --redefine-sym malloc=demangle_malloc --redefine-sym xmalloc=demangle_xmalloc \
	    --redefine-sym realloc=demangle_realloc --redefine-sym xrealloc=demangle_xrealloc \
	    --redefine-sym free=demangle_free \
	    --redefine-sym strcmp=demangle_strcmp --redefine-sym strncmp=demangle_strncmp \
	    --redefine-sym __sprintf_chk=demangle_sprintf \
	    --redefine-sym __snprintf_chk=demangle_snprintf \
	    --redefine-sym __stack_chk_fail=demangle_stack_broken $@

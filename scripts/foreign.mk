# How objects are made of Debian's static archives, which are position independent, so that they know no
# libc: what they refer to is renamed to functions of core/, all other names become local.
OBJCOPY ?= objcopy

# $(call foreign_names,ENTRIES,RENAMED): leaves the target ENTRIES alone, and RENAMED, each OLD=NEW.
define foreign_names
	$(Q)$(OBJCOPY) $(1:%=--keep-global-symbol=%) $(2:%=--redefine-sym %) $@
endef

# $(call foreign_object,ENTRIES,RENAMED): the same of what ENTRIES need of the archive, the first
# prerequisite.
define foreign_object
	@mkdir -p $(@D)
	@echo "  FOREIGN $@"
	$(Q)$(LD) -r -o $@ $(1:%=-u %) $<
	$(call foreign_names,$(1),$(2))
endef

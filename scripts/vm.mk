# Tests on the kernel of Debian 12, in a virtual machine of this processor.
VM_ROOT := $(B)/vm-root

# A root that is marked so: the archive lacks a package; unpack-root has said which.
.PHONY: check-vm
check-vm: all unit
	$(Q)$(MAKE) --no-print-directory $(VM_ROOT)/done || { test $$? -eq 2 && test -e $(VM_ROOT)/absent; }
	$(Q)test ! -e $(VM_ROOT)/done || VM_ROOT=$(abspath $(VM_ROOT)) TESTS='$(T)' B=$(B) CC='$(CC)' \
	    $(PYTHON) scripts/run-tests --timeout 7200 tests/vm/test_amd64

$(VM_ROOT)/done: scripts/vm-root scripts/unpack-root
	$(Q)rm -rf $(VM_ROOT)
	$(Q)scripts/vm-root amd64 $(VM_ROOT)
	$(Q)touch $@

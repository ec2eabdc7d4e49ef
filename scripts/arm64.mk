# The same sources for AArch64: built by the cross compiler, with Debian's arm64 libraries, below
# $(B)/arm64; unit tests of that under qemu's user mode emulation.
ARM64        := aarch64-linux-gnu
ARM64_B      := $(B)/arm64
ARM64_ROOT   := $(B)/arm64-root
ARM64_PACKAGES := libunwind-dev libunwind8 libiberty-dev liblzma-dev liblzma5 zlib1g-dev libprotobuf-c-dev
ARM64_LIBS   := $(ARM64_ROOT)/usr/lib/$(ARM64)
ARM64_MAKE    = $(MAKE) --no-print-directory B=$(ARM64_B) CC=$(ARM64)-gcc CROSS=$(ARM64)- SAN= \
                CFLAGS='$(CFLAGS) -DTEST_QUICKLY -isystem $(ARM64_ROOT)/usr/include -isystem $(ARM64_ROOT)/usr/include/$(ARM64)' \
                DEMANGLER_ARCHIVE=$(ARM64_LIBS)/libiberty.a LZMA_ARCHIVE=$(ARM64_LIBS)/liblzma.a \
                ZLIB_ARCHIVE=$(ARM64_LIBS)/libz.a PROTOBUF_ARCHIVE=$(ARM64_LIBS)/libprotobuf-c.a
ARM64_TESTS   = $(patsubst tests/unit/%.c,$(ARM64_B)/unit/%,$(filter-out %_x86_64.c \
                $(ARM64_NOT_RUN:%=tests/unit/%.c),$(wildcard tests/unit/test_*.c)))
# The emulator has no clone of the helper's kind, no timers for one thread, no process_vm_readv, and it is not
# the program that it runs (the first six); of the others nothing depends on the processor, and they would take
# minutes.
ARM64_NOT_RUN := test_helper test_helper_making test_former test_timers test_ring_writer test_process_watch \
                 test_code_index test_kernel_symbols test_kernel_table test_module_names test_outpath test_profile \
                 test_sampling
# The tools that tests call must know the processor.
ARM64_TOOLS  := $(ARM64_B)/tools
ARM64_UNDER   = qemu-aarch64 -L /usr/$(ARM64) \
                -E LD_LIBRARY_PATH=$(abspath $(ARM64_LIBS)):$(abspath $(ARM64_ROOT)/lib/$(ARM64))
ARM64_ENV     = PATH="$(abspath $(ARM64_TOOLS)):$$PATH" B=$(ARM64_B) CC=$(ARM64)-gcc CXX=$(ARM64)-g++

ARM64_VM_ROOT := $(B)/arm64-vm-root

.PHONY: arm64 check-arm64
arm64: $(ARM64_ROOT)/done
	$(Q)$(ARM64_MAKE) all

# A root that is marked so: the archive lacks a package; unpack-root has said which.
check-arm64:
	$(Q)$(MAKE) --no-print-directory $(ARM64_ROOT)/done || { test $$? -eq 2 && test -e $(ARM64_ROOT)/absent; }
	$(Q)test ! -e $(ARM64_ROOT)/done || $(MAKE) --no-print-directory check-arm64-built

.PHONY: check-arm64-built
check-arm64-built: $(ARM64_TOOLS)
	$(Q)$(ARM64_MAKE) all $(ARM64_B)/portable/libselfsample.so unit
	$(Q)$(ARM64_ENV) $(PYTHON) scripts/run-tests scripts/check-core-symbols scripts/check-glibc
	$(Q)$(ARM64_ENV) $(PYTHON) scripts/run-tests --under '$(ARM64_UNDER)' $(ARM64_TESTS)

# Whole runs, on Debian's kernel in an emulated machine. As above where the archive lacks packages.
.PHONY: check-arm64-vm check-arm64-vm-built
check-arm64-vm:
	$(Q)$(MAKE) --no-print-directory $(ARM64_ROOT)/done $(ARM64_VM_ROOT)/done || \
	    { test $$? -eq 2 && test -e $(ARM64_ROOT)/absent -o -e $(ARM64_VM_ROOT)/absent; }
	$(Q)test ! -e $(ARM64_VM_ROOT)/done || $(MAKE) --no-print-directory check-arm64-vm-built

check-arm64-vm-built: $(ARM64_TOOLS)
	$(Q)$(ARM64_MAKE) all
	$(Q)$(ARM64_ENV) VM_ROOT=$(abspath $(ARM64_VM_ROOT)) TESTS='$(T)' \
	    $(PYTHON) scripts/run-tests --timeout 900 tests/vm/test_arm64

$(ARM64_VM_ROOT)/done: scripts/vm-root scripts/unpack-root
	$(Q)rm -rf $(ARM64_VM_ROOT)
	$(Q)scripts/vm-root arm64 $(ARM64_VM_ROOT)
	$(Q)touch $@

$(ARM64_ROOT)/done: scripts/unpack-root
	$(Q)rm -rf $(ARM64_ROOT)
	$(Q)scripts/unpack-root arm64 $(ARM64_ROOT) $(ARM64_PACKAGES)
	$(Q)touch $@

$(ARM64_TOOLS): scripts/arm64.mk
	$(Q)mkdir -p $@
	$(Q)for tool in gcc g++ nm ld objcopy objdump readelf strip; do \
	    ln -sf "$$(command -v $(ARM64)-$$tool)" $@/$$tool || exit 1; done
	$(Q)touch $@

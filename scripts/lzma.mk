# liblzma's decoder as one object that knows no libc: the members of Debian's static archive (it is
# position independent) that core/debugdata.c calls, their references renamed to functions there, all
# other names local.
OBJCOPY ?= objcopy
LZMA_ARCHIVE := $(shell $(CC) -print-file-name=liblzma.a)
LZMA_ENTRIES := lzma_stream_footer_decode lzma_index_buffer_decode lzma_index_uncompressed_size \
                lzma_stream_buffer_decode

FOREIGN_OBJECTS += $(B)/lzma.o

$(B)/lzma.o: $(LZMA_ARCHIVE) scripts/lzma.mk
	@mkdir -p $(@D)
	@echo "  FOREIGN $@"
	$(Q)$(LD) -r -o $@ $(LZMA_ENTRIES:%=-u %) $(LZMA_ARCHIVE)
	$(Q)$(OBJCOPY) $(LZMA_ENTRIES:%=--keep-global-symbol=%) \
	    --redefine-sym malloc=debugdata_malloc --redefine-sym calloc=debugdata_calloc \
	    --redefine-sym free=debugdata_free \
	    --redefine-sym __stack_chk_fail=debugdata_stack_broken $@

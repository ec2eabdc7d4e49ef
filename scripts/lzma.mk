# liblzma's decoder, as core/debugdata.c calls it.
LZMA_ARCHIVE := $(shell $(CC) -print-file-name=liblzma.a)
LZMA_ENTRIES := lzma_stream_footer_decode lzma_index_buffer_decode lzma_index_uncompressed_size \
                lzma_stream_buffer_decode
LZMA_RENAMED := malloc=debugdata_malloc calloc=debugdata_calloc free=debugdata_free \
                __stack_chk_fail=debugdata_stack_broken

FOREIGN_OBJECTS += $(B)/lzma.o

$(B)/lzma.o: $(LZMA_ARCHIVE) scripts/lzma.mk scripts/foreign.mk
	$(call foreign_object,$(LZMA_ENTRIES),$(LZMA_RENAMED))

# What writes pprof files: zlib's compressor and the encoder of protobuf-c, as core/gzip.c and core/pprof.c
# call them, and protoc-c's code for core/pprof.proto. The command, which may use libc, takes the archives
# as they are (PPROF_ARCHIVES).
PROTOC_C := protoc-c
ZLIB_ARCHIVE     := $(shell $(CC) -print-file-name=libz.a)
PROTOBUF_ARCHIVE := $(shell $(CC) -print-file-name=libprotobuf-c.a)
ZLIB_ENTRIES     := deflateInit2_ deflate deflateEnd
ZLIB_RENAMED     := malloc=gzip_malloc free=gzip_free __stack_chk_fail=gzip_stack_broken
PROTOBUF_ENTRIES := protobuf_c_message_get_packed_size protobuf_c_message_pack \
                    protobuf_c_message_pack_to_buffer protobuf_c_message_unpack \
                    protobuf_c_message_free_unpacked protobuf_c_empty_string
PROTOBUF_RENAMED := malloc=pprof_malloc free=pprof_free strcmp=pprof_strcmp \
                    __assert_fail=pprof_assertion_failed __stack_chk_fail=pprof_stack_broken

FOREIGN_OBJECTS += $(B)/zlib.o $(B)/protobuf.o
PPROF_ARCHIVES  := $(PROTOBUF_ARCHIVE) $(ZLIB_ARCHIVE)

$(B)/zlib.o: $(ZLIB_ARCHIVE) scripts/pprof.mk scripts/foreign.mk
	$(call foreign_object,$(ZLIB_ENTRIES),$(ZLIB_RENAMED))

$(B)/protobuf.o: $(PROTOBUF_ARCHIVE) scripts/pprof.mk scripts/foreign.mk
	$(call foreign_object,$(PROTOBUF_ENTRIES),$(PROTOBUF_RENAMED))

$(B)/pprof.pb-c.c $(B)/pprof.pb-c.h &: core/pprof.proto
	@mkdir -p $(@D)
	@echo "  PROTOC  $@"
	$(Q)$(PROTOC_C) --proto_path=core --c_out=$(B) $<

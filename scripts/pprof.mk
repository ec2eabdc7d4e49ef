# What writes pprof files: zlib's compressor and the encoder of protobuf-c as objects that know no
# libc: members of Debian's static archives (they are position independent), their references renamed
# to functions of core/gzip.c and core/pprof.c, all other names local. And protoc-c's code for
# core/pprof.proto. The command, which may use libc, takes the archives as they are (PPROF_ARCHIVES).
OBJCOPY  ?= objcopy
PROTOC_C := protoc-c
ZLIB_ARCHIVE     := $(shell $(CC) -print-file-name=libz.a)
PROTOBUF_ARCHIVE := $(shell $(CC) -print-file-name=libprotobuf-c.a)
ZLIB_ENTRIES     := deflateInit2_ deflate deflateEnd
PROTOBUF_ENTRIES := protobuf_c_message_get_packed_size protobuf_c_message_pack \
                    protobuf_c_message_pack_to_buffer protobuf_c_message_unpack \
                    protobuf_c_message_free_unpacked protobuf_c_empty_string

FOREIGN_OBJECTS += $(B)/zlib.o $(B)/protobuf.o
PPROF_ARCHIVES  := $(PROTOBUF_ARCHIVE) $(ZLIB_ARCHIVE)

$(B)/zlib.o: $(ZLIB_ARCHIVE) scripts/pprof.mk
	@mkdir -p $(@D)
	@echo "  FOREIGN $@"
	$(Q)$(LD) -r -o $@ $(ZLIB_ENTRIES:%=-u %) $(ZLIB_ARCHIVE)
	$(Q)$(OBJCOPY) $(ZLIB_ENTRIES:%=--keep-global-symbol=%) \
	    --redefine-sym malloc=gzip_malloc --redefine-sym free=gzip_free \
	    --redefine-sym __stack_chk_fail=gzip_stack_broken $@

$(B)/protobuf.o: $(PROTOBUF_ARCHIVE) scripts/pprof.mk
	@mkdir -p $(@D)
	@echo "  FOREIGN $@"
	$(Q)$(LD) -r -o $@ $(PROTOBUF_ENTRIES:%=-u %) $(PROTOBUF_ARCHIVE)
	$(Q)$(OBJCOPY) $(PROTOBUF_ENTRIES:%=--keep-global-symbol=%) \
	    --redefine-sym malloc=pprof_malloc --redefine-sym free=pprof_free \
	    --redefine-sym strcmp=pprof_strcmp --redefine-sym __assert_fail=pprof_assertion_failed \
	    --redefine-sym __stack_chk_fail=pprof_stack_broken $@

$(B)/pprof.pb-c.c $(B)/pprof.pb-c.h &: core/pprof.proto
	@mkdir -p $(@D)
	@echo "  PROTOC  $@"
	$(Q)$(PROTOC_C) --proto_path=core --c_out=$(B) $<

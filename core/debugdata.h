/*
 * .gnu_debugdata, "mini debug info": an xz-compressed ELF file within a stripped one, which holds
 * the symbols that .dynsym lacks (Fedora and its kin ship every program so).
 *
 * Source: "Debugging with GDB", section "MiniDebugInfo"; the .xz file format 1.1.0.
 * Thread safety: one task at a time.
 */
#ifndef SELFSAMPLE_CORE_DEBUGDATA_H
#define SELFSAMPLE_CORE_DEBUGDATA_H

struct arena;
struct elf_file;

/*
 * Unpacks the section of MAIN into ARENA (at most 64 MiB) and reads its headers into DEBUG. 0;
 * -ENOENT: there is none; -EBADMSG: damaged, or of another machine; -ENOMEM. What the decoder
 * needed besides stays in ARENA until the caller gives it back.
 */
int debugdata_open(struct elf_file *debug, const struct elf_file *main, struct arena *arena);

#endif

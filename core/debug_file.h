/*
 * The separate debug file of a stripped program or library: where its symbol table went.
 *
 * Looked for, in this order, by build id in DIRECTORY/.build-id/xx/yyyy.debug, then by
 * .gnu_debuglink beside the file, in .debug below that, and in DIRECTORY + the file's own
 * directory. A file of another build is refused: its build id must be the same, or, where one of
 * the two has none, its CRC-32 must be that of the .gnu_debuglink. So is one without a symbol
 * table.
 *
 * Source: "Debugging with GDB", section "Debugging Information in Separate Files".
 * Thread safety: no state.
 */
#ifndef SELFSAMPLE_CORE_DEBUG_FILE_H
#define SELFSAMPLE_CORE_DEBUG_FILE_H

#include <stdint.h>

struct arena;
struct elf_file;

#define DEBUG_FILE_DIRECTORY "/usr/lib/debug"

/*
 * Opens the debug file of MAIN, which was found at PATH. The descriptor (the caller closes it;
 * DEBUG reads through it), or -ENOENT. ARENA keeps DEBUG's segments.
 */
int debug_file_open(struct elf_file *debug, const struct elf_file *main, const char *path,
                    const char *directory, struct arena *arena);

/* CRC-32 as .gnu_debuglink uses it (IEEE 802.3, reflected), going on from CRC, which is 0 at first.
 */
uint32_t debug_file_crc32(uint32_t crc, const uint8_t *bytes, uint64_t count);

#endif

/* cfi_entry on entries written by hand from the format's description. */
#include "cfi_entry.h"

#include "check.h"

static struct cfi_reader reader_over(struct cfi_bytes *from, const void *bytes, size_t count)
{
    *from = (struct cfi_bytes){bytes, count, 0x1000, false};
    return (struct cfi_reader){from, 0, count, false};
}

/* The examples of DWARF 5, figures 22 and 23 (section 7.6). */
TEST(leb128_numbers)
{
    static const struct {
        const char *bytes;
        size_t count;
        int64_t value;
        bool is_signed;
    } examples[] = {
        {"\x02", 1, 2, false},       {"\x7f", 1, 127, false},       {"\x80\x01", 2, 128, false},
        {"\x81\x01", 2, 129, false}, {"\xb9\x64", 2, 12857, false}, {"\x02", 1, 2, true},
        {"\x7e", 1, -2, true},       {"\xff\x00", 2, 127, true},    {"\x81\x7f", 2, -127, true},
        {"\x80\x01", 2, 128, true},  {"\x80\x7f", 2, -128, true},   {"\x81\x01", 2, 129, true},
        {"\xff\x7e", 2, -129, true},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        struct cfi_bytes from;
        struct cfi_reader reader = reader_over(&from, examples[i].bytes, examples[i].count);
        int64_t value =
            examples[i].is_signed ? cfi_read_sleb(&reader) : (int64_t)cfi_read_uleb(&reader);
        CHECK_I64(value, examples[i].value);
        CHECK_U64(reader.at, examples[i].count);
        CHECK(!reader.bad);
    }
}

TEST(leb128_without_an_end)
{
    static const uint8_t endless[64] = {[0 ... 63] = 0xff};
    struct cfi_bytes from;
    struct cfi_reader reader = reader_over(&from, endless, sizeof endless);
    cfi_read_uleb(&reader);
    CHECK(reader.bad);
    reader = reader_over(&from, endless, sizeof endless);
    cfi_read_sleb(&reader);
    CHECK(reader.bad);
}

TEST(pointers_of_every_encoding)
{
    static const uint8_t bytes[8] = {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    static const struct {
        uint8_t encoding;
        size_t count;
        uint64_t value;
    } examples[] = {
        {CFI_ABSPTR, 8, (uint64_t)-2},
        {CFI_UDATA2, 2, 0xfffe},
        {CFI_UDATA4, 4, 0xfffffffe},
        {CFI_UDATA8, 8, (uint64_t)-2},
        {CFI_SDATA2, 2, (uint64_t)-2},
        {CFI_SDATA4, 4, (uint64_t)-2},
        {CFI_SDATA8, 8, (uint64_t)-2},
        {CFI_PCREL | CFI_SDATA4, 4, 0x1000 - 2},
        {CFI_DATAREL | CFI_SDATA4, 4, 0x5000 - 2},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        struct cfi_bytes from;
        struct cfi_reader reader = reader_over(&from, bytes, sizeof bytes);
        CHECK_U64(cfi_read_pointer(&reader, examples[i].encoding, 0x5000), examples[i].value);
        CHECK_U64(reader.at, examples[i].count);
        CHECK(!reader.bad);
        reader = reader_over(&from, bytes, examples[i].count - 1);
        CHECK_U64(cfi_read_pointer(&reader, CFI_FORMAT & examples[i].encoding, 0), 0);
        CHECK(reader.bad);
    }
    static const uint8_t unknown[] = {0x05, 0x0f, 0x20, 0x40, 0x90, 0xff};
    for (size_t i = 0; i < sizeof unknown; i++) {
        struct cfi_bytes from;
        struct cfi_reader reader = reader_over(&from, bytes, sizeof bytes);
        cfi_read_pointer(&reader, unknown[i], 0);
        CHECK(reader.bad);
    }
}

/* A CIE "zRS" with pcrel sdata4, a terminator, and an FDE of [0x1100, 0x1120); 0x1000 is byte 0. */
static const uint8_t eh_frame[] = {
    /*  0 */ 0x14,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    1,
    'z',
    'R',
    'S',
    0,
    1,
    0x78,
    16,
    1,
    0x1b,
    /* 18 */ 0x0c,
    7,
    8,
    0x90,
    1,
    0,
    /* 24 */ 0,
    0,
    0,
    0,
    /* 28 */ 0x10,
    0,
    0,
    0,
    0x20,
    0,
    0,
    0,
    0xdc,
    0,
    0,
    0,
    0x20,
    0,
    0,
    0,
    0,
    0x41,
    0x0e,
    16,
    /* 48 */ 0,
    0,
    0,
    0};

TEST(an_eh_frame_by_hand)
{
    struct cfi_bytes from = {eh_frame, sizeof eh_frame, 0x1000, false};
    struct cfi_entry entry;
    struct cfi_cie cie;
    struct cfi_fde fde;
    size_t at = 0, start;
    REQUIRE(cfi_entry_next(&from, &at, &start, &entry) && entry.is_cie);
    REQUIRE(cfi_cie_read(&from, &entry, &cie));
    CHECK_U64(start, 0);
    CHECK_U64(cie.code_alignment, 1);
    CHECK_I64(cie.data_alignment, -8);
    CHECK_U64(cie.return_register, 16);
    CHECK_U64(cie.fde_encoding, CFI_PCREL | CFI_SDATA4);
    CHECK(cie.signal_frame && cie.augmented);
    CHECK_U64(cie.instructions, 18);
    CHECK_U64(cie.end, 24);
    REQUIRE(cfi_entry_next(&from, &at, &start, &entry) && !entry.is_cie);
    CHECK_U64(start, 28);
    CHECK_U64(entry.cie_vaddr, 0x1000);
    REQUIRE(cfi_fde_read(&from, &entry, &cie, &fde));
    CHECK_U64(fde.start_vaddr, 0x1100);
    CHECK_U64(fde.end_vaddr, 0x1120);
    CHECK_U64(fde.instructions, 45);
    CHECK_U64(fde.end, 48);
    CHECK(!cfi_entry_next(&from, &at, &start, &entry));
}

TEST(an_entry_that_is_cut_at_any_byte)
{
    for (size_t count = 0; count < sizeof eh_frame; count++) {
        struct cfi_bytes from = {eh_frame, count, 0x1000, false};
        struct cfi_entry entry;
        size_t at = 0, start, entries = 0;
        while (cfi_entry_next(&from, &at, &start, &entry))
            entries++;
        CHECK_U64(entries, count < 24 ? 0 : count < 48 ? 1 : 2);
    }
}

/* The head of an FDE is enough for its addresses. */
TEST(the_addresses_of_a_cut_fde)
{
    struct cfi_bytes from = {eh_frame + 28, 16, 0x1000 + 28, false};
    struct cfi_cie cie = {.fde_encoding = CFI_PCREL | CFI_SDATA4, .augmented = true};
    struct cfi_entry entry;
    struct cfi_fde fde;
    REQUIRE(cfi_entry_read(&from, 0, &entry));
    CHECK(entry.cut);
    REQUIRE(cfi_fde_read(&from, &entry, &cie, &fde));
    CHECK_U64(fde.start_vaddr, 0x1100);
    CHECK_U64(fde.end_vaddr, 0x1120);
    from.count = 15;
    REQUIRE(cfi_entry_read(&from, 0, &entry));
    CHECK(!cfi_fde_read(&from, &entry, &cie, &fde));
}

/* .debug_frame: 64-bit DWARF, version 4, and CIE references by offset. */
TEST(a_debug_frame_by_hand)
{
    static const uint8_t debug_frame[] = {
        "\xff\xff\xff\xff\x10\0\0\0\0\0\0\0"                         /*  0: a CIE's length */
        "\xff\xff\xff\xff\xff\xff\xff\xff\x04\0\x08\0\x01\x78\x10\0" /* 12 */
        "\xff\xff\xff\xff\x1a\0\0\0\0\0\0\0"                         /* 28: an FDE's length */
        "\0\0\0\0\0\0\0\0\0\x20\0\0\0\0\0\0"                         /* 40: its CIE and start */
        "\x30\0\0\0\0\0\0\0\x41\0"                                   /* 56 */
    };
    struct cfi_bytes from = {debug_frame, sizeof debug_frame - 1, 0, true};
    struct cfi_entry entry;
    struct cfi_cie cie;
    struct cfi_fde fde;
    size_t at = 0, start;
    REQUIRE(cfi_entry_next(&from, &at, &start, &entry) && entry.is_cie);
    REQUIRE(cfi_cie_read(&from, &entry, &cie));
    CHECK(!cie.augmented);
    CHECK_U64(cie.return_register, 16);
    CHECK_U64(cie.instructions, 27);
    REQUIRE(cfi_entry_next(&from, &at, &start, &entry) && !entry.is_cie);
    CHECK_U64(entry.cie_vaddr, 0);
    REQUIRE(cfi_fde_read(&from, &entry, &cie, &fde));
    CHECK_U64(fde.start_vaddr, 0x2000);
    CHECK_U64(fde.end_vaddr, 0x2030);
    CHECK_U64(fde.instructions, 64);
}

/* Reads a CIE of 32 bytes with these augmentation LETTERS, and the five bytes of TAIL behind them.
 */
static bool cie_with(const char *letters, const char *tail, struct cfi_cie *cie)
{
    uint8_t bytes[32] = {28, 0, 0, 0, 0, 0, 0, 0, 1};
    size_t length = strlen(letters) + 1;
    memcpy(bytes + 9, letters, length);
    memcpy(bytes + 9 + length, tail, 5);
    struct cfi_bytes from = {bytes, sizeof bytes, 0, false};
    struct cfi_entry entry;
    CHECK(cfi_entry_read(&from, 0, &entry));
    return cfi_cie_read(&from, &entry, cie);
}

TEST(augmentations_that_are_not_known_are_refused)
{
    static const char *const letters[] = {"eh", "zX", "R", "zRx"};
    for (size_t i = 0; i < 4; i++) {
        struct cfi_cie cie;
        CHECK(!cie_with(letters[i], "\x01\x78\x10\x01\x1b", &cie));
    }
}

/* "zRB": functions whose return addresses are signed with key B; "zRG": frames that are tagged.
 * Both letters come without data (DWARF for the Arm 64-bit architecture, "Augmentation string"). */
TEST(augmentations_of_aarch64_are_taken)
{
    static const char *const letters[] = {"zRB", "zBR", "zRG", "zRBG"};
    for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++) {
        struct cfi_cie cie;
        REQUIRE(cie_with(letters[i], "\x04\x78\x1e\x01\x1b", &cie));
        CHECK_U64(cie.fde_encoding, 0x1b);
        CHECK_U64(cie.instructions, 9 + strlen(letters[i]) + 1 + 5);
        CHECK(!cie.signal_frame);
    }
}

TEST(a_personality_is_passed_over)
{
    static const uint8_t bytes[] = {28,  0,    0,    0,    0,    0,  0, 0,    1, 'z', 'P',
                                    'L', 'R',  0,    1,    0x78, 16, 7, 0x9b, 1, 2,   3,
                                    4,   0x1b, 0x1b, 0x0c, 7,    8,  0, 0,    0, 0};
    struct cfi_bytes from = {bytes, sizeof bytes, 0, false};
    struct cfi_entry entry;
    struct cfi_cie cie;
    REQUIRE(cfi_entry_read(&from, 0, &entry));
    REQUIRE(cfi_cie_read(&from, &entry, &cie));
    CHECK_U64(cie.fde_encoding, 0x1b);
    CHECK(!cie.signal_frame);
    CHECK_U64(cie.instructions, 25);
}

/* Judges UTF-8 (RFC 3629). Runs in the helper, and in the selfsample command. */
#include "utf8.h"

/* The least that a character's second byte may be, and the most: those of overlong ones, of
 * surrogates, and beyond U+10FFFF are out. */
static bool second_is_fit(unsigned char first, unsigned char second)
{
    unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    return second >= least && second <= most;
}

size_t utf8_bytes(const unsigned char *text)
{
    unsigned char c = text[0];
    if (c < 0x80)
        return 1;
    size_t bytes = c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    if (bytes == 0 || !second_is_fit(c, text[1]))
        return 0;
    for (size_t i = 2; i < bytes; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    return bytes;
}

bool utf8_is_clean(const char *text)
{
    while (*text != '\0') {
        size_t bytes = utf8_bytes((const unsigned char *)text);
        if (bytes == 0)
            return false;
        text += bytes;
    }
    return true;
}

void utf8_clean(char *text)
{
    while (*text != '\0') {
        size_t bytes = utf8_bytes((const unsigned char *)text);
        if (bytes == 0)
            *text = '?';
        text += bytes > 0 ? bytes : 1;
    }
}

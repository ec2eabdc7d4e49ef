/* Attaches facts to files. Runs in the helper, and in the selfsample command. */
#include "facts.h"

#include "sys.h"
#include "text.h"

static void put(struct text *text, const char *key, uint64_t value)
{
    text_put(text, key);
    text_put_u64(text, value);
}

void facts_attach(int fd, const struct facts *facts)
{
    char buffer[FACTS_BYTES];
    struct text text = text_over(buffer, sizeof buffer);
    put(&text, "bytes ", facts->bytes);
    text_put(&text, facts->is_us ? "\nunit us" : "\nunit samples");
    put(&text, "\nrate ", facts->rate_hz);
    put(&text, "\nroots ", facts->roots);
    text_put_char(&text, '\n');
    sys5(SYS_fsetxattr, fd, FACTS_NAME, text.start, text.length, 0);
}

/* The helper's word to the outside. Runs in the helper. Never waits, never complains. */
#include "status.h"

#include "descriptors.h"
#include "sys.h"
#include "text.h"

void status_open(struct status *status, pid_t app_pid)
{
    *status = (struct status){
        .fd = descriptor_offer(STATUS_NAME, STATUS_FD), .app_pid = app_pid, .look_fd = -1};
}

static void put_key(struct text *text, const char *key, const char *value)
{
    text_put(text, key);
    text_put_char(text, ' ');
    for (const char *c = value != NULL ? value : ""; *c != '\0'; c++)
        text_put_char(text, (unsigned char)*c < 0x20 || *c == 0x7f ? '_' : *c);
    text_put_char(text, '\n');
}

static void put_number(struct text *text, const char *key, int64_t value)
{
    text_put(text, key);
    text_put_char(text, ' ');
    text_put_i64(text, value);
    text_put_char(text, '\n');
}

void status_write(struct status *status)
{
    char buffer[STATUS_BYTES];
    struct text text = text_over(buffer, sizeof buffer);
    if (status->fd < 0)
        return;
    status->serial++;
    put_number(&text, "serial", (int64_t)status->serial);
    put_number(&text, "app", status->app_pid);
    put_key(&text, "program", status->program);
    put_key(&text, "engine", status->engine);
    put_key(&text, "format", status->format);
    put_key(&text, "unit", status->unit);
    put_number(&text, "rate", (int64_t)status->rate_hz);
    put_number(&text, "roots", status->roots);
    put_key(&text, "out", status->out);
    put_key(&text, "out_is_had", status->out_is_had ? "yes" : "no");
    put_number(&text, "samples", (int64_t)status->samples);
    put_number(&text, "cpu_ns", (int64_t)status->cpu_ns);
    put_key(&text, "paused", status->paused ? "yes" : "no");
    put_number(&text, "snapshots", status->snapshots);
    put_key(&text, "error", status->error);
    put_key(&text, "file", status->file);
    put_number(&text, "looks", status->looks);
    put_number(&text, "look", status->look_fd);
    put_key(&text, "look_error", status->look_error);
    put_number(&text, "end", (int64_t)status->serial);
    /* Never empty in between: what is left of a longer text stands behind the end for a moment. */
    sys4(SYS_pwrite64, status->fd, text.start, text.length, 0);
    sys2(SYS_ftruncate, status->fd, text.length);
}

/* The terminal of `selfsample live`, by the sequences that every terminal since the VT100 knows. */
#include "live.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ENTER      "\033[?1049h\033[?25l" /* another screen, no cursor */
#define LEAVE      "\033[?25h\033[?1049l"
#define HOME       "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_REST "\033[J"

/* For the end of this process, and of no child of it. */
static struct screen *screen_of_exit;
static pid_t process_of_exit;

void screen_measure(struct screen *screen)
{
    struct winsize size = {0};
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
    screen->rows = known ? size.ws_row : 24;
    screen->columns = known ? size.ws_col : 80;
}

void screen_open(struct screen *screen)
{
    const char *kind = getenv("TERM");
    bool is_dumb = kind == NULL || kind[0] == 0 || strcmp(kind, "dumb") == 0;
    *screen = (struct screen){.is_terminal = isatty(STDOUT_FILENO) == 1 && !is_dumb};
    screen->has_keys = screen->is_terminal && tcgetattr(STDIN_FILENO, &screen->before) == 0;
    screen_measure(screen);
}

static void leave_at_exit(void)
{
    if (getpid() == process_of_exit)
        screen_leave(screen_of_exit);
}

/* Not through stdio: what is in its buffer is not for this screen. */
static void put(const char *text, size_t length)
{
    while (length > 0) {
        ssize_t written = write(STDOUT_FILENO, text, length);
        if (written <= 0)
            return;
        text += written;
        length -= (size_t)written;
    }
}

void screen_enter(struct screen *screen)
{
    if (!screen->is_terminal || screen->is_entered)
        return;
    if (screen_of_exit == NULL)
        atexit(leave_at_exit);
    screen_of_exit = screen;
    process_of_exit = getpid();
    screen->is_entered = true;
    if (screen->has_keys) {
        struct termios keys = screen->before;
        keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        keys.c_cc[VMIN] = 1;
        keys.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSADRAIN, &keys);
    }
    put(ENTER, sizeof ENTER - 1);
}

void screen_leave(struct screen *screen)
{
    if (!screen->is_entered)
        return;
    screen->is_entered = false;
    put(LEAVE, sizeof LEAVE - 1);
    if (screen->has_keys)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &screen->before);
}

void screen_paint(const struct screen *screen, const char *text)
{
    char *painting;
    size_t bytes, row = 0;
    FILE *out = open_memstream(&painting, &bytes);
    if (out == NULL)
        return;
    fputs(HOME, out);
    for (; *text != 0 && row < screen->rows; row++) {
        size_t length = strcspn(text, "\n");
        fprintf(out, "%s%.*s" CLEAR_LINE, row > 0 ? "\r\n" : "", (int)length, text);
        text += length + (text[length] == '\n');
    }
    /* Behind a last line that fills the screen this would take its last character. */
    if (row < screen->rows)
        fputs("\r\n" CLEAR_REST, out);
    if (fclose(out) == 0)
        put(painting, bytes);
    free(painting);
}

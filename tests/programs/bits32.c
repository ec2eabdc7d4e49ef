/*
 * A program of another word size, without any library. Leaves with 5.
 * Build: -m32 -static -nostdlib -ffreestanding -fno-pie -no-pie -fno-stack-protector
 */
static int call(int number, int a, const void *b, int c)
{
    int result;

    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
    return result;
}

void _start(void);
void _start(void)
{
    call(4, 1, "32 bits\n", 8);
    for (;;)
        call(1, 5, 0, 0);
}

/* Has its build-id behind another note, both aligned to eight bytes, as linkers may write them. */
#include <stdint.h>

__attribute__((visibility("default"))) uintptr_t notes_function(void);

__asm__(".pushsection .note.test, \"a\", %note\n"
        ".balign 8\n"
        ".4byte 4, 4, 99\n" /* 12 bytes and a name of 4: the text follows at once */
        ".asciz \"GNU\"\n"
        ".4byte 7\n"
        ".balign 8\n"
        ".4byte 4, 8, 3\n"
        ".asciz \"GNU\"\n"
        ".byte 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88\n"
        ".balign 8\n"
        ".popsection\n");

uintptr_t notes_function(void)
{
    return (uintptr_t)notes_function;
}

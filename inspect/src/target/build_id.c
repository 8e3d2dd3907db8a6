#include "target/build_id.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>

enum { MAX_NOTES = 4096, MAX_PROGRAMS = 64 };

static void put_hexadecimal(const unsigned char *bytes, size_t size, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < size; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = '\0';
}

static size_t padded(size_t size)
{
    return (size + 3) & ~(size_t)3;
}

static bool find_note(const unsigned char *notes, size_t size, char *out)
{
    Elf64_Nhdr note;

    for (size_t at = 0; at + sizeof note <= size;) {
        size_t name = at + sizeof note, data;

        memcpy(&note, notes + at, sizeof note);
        data = name + padded(note.n_namesz);
        if (note.n_namesz > size || note.n_descsz > size || data + note.n_descsz > size)
            return false;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof ELF_NOTE_GNU &&
            !memcmp(notes + name, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) && note.n_descsz &&
            note.n_descsz * 2 < SSI_BUILD_ID_ROOM) {
            put_hexadecimal(notes + data, note.n_descsz, out);
            return true;
        }
        at = data + padded(note.n_descsz);
    }
    return false;
}

/* The notes lie in the first segment, whose offsets count from BASE in the file and in memory. */
bool ssi_build_id(const ssi_memory *memory, uint64_t base, char *out)
{
    unsigned char notes[MAX_NOTES];
    Elf64_Ehdr header;
    Elf64_Phdr program;

    if (!ssi_read(memory, base, &header, sizeof header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
        return false;
    for (unsigned i = 0; i < header.e_phnum && i < MAX_PROGRAMS; i++) {
        if (!ssi_read(memory, base + header.e_phoff + i * sizeof program, &program, sizeof program))
            return false;
        if (program.p_type == PT_NOTE && program.p_filesz <= sizeof notes &&
            ssi_read(memory, base + program.p_offset, notes, (size_t)program.p_filesz) &&
            find_note(notes, (size_t)program.p_filesz, out))
            return true;
    }
    return false;
}

static bool read_file(void *data, uint64_t address, void *out, size_t size)
{
    return address <= INT64_MAX && pread(*(int *)data, out, size, (off_t)address) == (ssize_t)size;
}

bool ssi_build_id_of_file(int fd, char *out)
{
    return ssi_build_id(&(ssi_memory){read_file, &fd}, 0, out);
}

/* What else a core file may name holds no code, but perhaps secrets. */
static bool is_binary(int fd)
{
    Elf64_Ehdr header;

    return pread(fd, &header, sizeof header, 0) == (ssize_t)sizeof header &&
           !memcmp(header.e_ident, ELFMAG, SELFMAG) &&
           (header.e_type == ET_EXEC || header.e_type == ET_DYN);
}

bool ssi_build_id_fits(const ssi_memory *memory, uint64_t base, int fd)
{
    char there[SSI_BUILD_ID_ROOM], here[SSI_BUILD_ID_ROOM];

    return is_binary(fd) && (!ssi_build_id(memory, base, there) ||
                             (ssi_build_id_of_file(fd, here) && !strcmp(there, here)));
}

#include "target/binary.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Build-ids --------------------------------------------------------------------------------*/

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

bool ssi_note_next(const unsigned char *notes, size_t size, size_t *at, ssi_note *note)
{
    Elf64_Nhdr head;
    size_t name = *at + sizeof head, data;

    if (name > size)
        return false;
    memcpy(&head, notes + *at, sizeof head);
    data = name + padded(head.n_namesz);
    if (data + head.n_descsz > size)
        return false;
    *note = (ssi_note){head.n_type, head.n_namesz, head.n_descsz, notes + name, notes + data};
    *at = data + padded(head.n_descsz);
    return true;
}

static bool find_note(const unsigned char *notes, size_t size, char *out)
{
    ssi_note note;

    for (size_t at = 0; ssi_note_next(notes, size, &at, &note);)
        if (note.type == NT_GNU_BUILD_ID && note.name_size == sizeof ELF_NOTE_GNU &&
            !memcmp(note.name, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) && note.size &&
            note.size * 2 < SSI_BUILD_ID_ROOM) {
            put_hexadecimal(note.data, note.size, out);
            return true;
        }
    return false;
}

static bool read_at(int fd, uint64_t address, void *out, size_t size)
{
    if (fd < 0)
        return ssi_read(address, out, size);
    return address <= INT64_MAX && pread(fd, out, size, (off_t)address) == (ssize_t)size;
}

/* The notes lie in the first segment, whose offsets count from BASE in the file and in memory. */
bool ssi_build_id(int fd, uint64_t base, char *out)
{
    unsigned char notes[MAX_NOTES];
    Elf64_Ehdr header;
    Elf64_Phdr program;

    if (!read_at(fd, base, &header, sizeof header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
        return false;
    for (unsigned i = 0; i < header.e_phnum && i < MAX_PROGRAMS; i++) {
        if (!read_at(fd, base + header.e_phoff + i * sizeof program, &program, sizeof program))
            return false;
        if (program.p_type == PT_NOTE && program.p_filesz <= sizeof notes &&
            read_at(fd, base + program.p_offset, notes, (size_t)program.p_filesz) &&
            find_note(notes, (size_t)program.p_filesz, out))
            return true;
    }
    return false;
}

/* What else a core file may name holds no code, but perhaps secrets. */
static bool is_binary(int fd)
{
    Elf64_Ehdr header;

    return ssi_elf_header(fd, &header) && (header.e_type == ET_EXEC || header.e_type == ET_DYN);
}

bool ssi_build_id_fits(uint64_t base, int fd)
{
    char there[SSI_BUILD_ID_ROOM], here[SSI_BUILD_ID_ROOM];

    return is_binary(fd) &&
           (!ssi_build_id(-1, base, there) || (ssi_build_id(fd, 0, here) && !strcmp(there, here)));
}

/* ---- Symbols and sections ---------------------------------------------------------------------*/

const void *ssi_binary_part(const ssi_binary *binary, uint64_t offset, uint64_t size)
{
    return offset <= binary->size && size <= binary->size - offset ? binary->bytes + offset : NULL;
}

static const Elf64_Ehdr *header(const ssi_binary *binary)
{
    const Elf64_Ehdr *h = ssi_binary_part(binary, 0, sizeof *h);

    return h && !memcmp(h->e_ident, ELFMAG, SELFMAG) && h->e_ident[EI_CLASS] == ELFCLASS64 &&
                   h->e_ident[EI_DATA] == ELFDATA2LSB
               ? h
               : NULL;
}

bool ssi_binary_program(const ssi_binary *binary, uint64_t number, Elf64_Phdr *out)
{
    const Elf64_Ehdr *h = header(binary);
    uint64_t count = h->e_phnum;
    const void *at = ssi_binary_part(binary, h->e_shoff, sizeof(Elf64_Shdr));
    Elf64_Shdr first;

    if (count == PN_XNUM && at) { /* the number needs more than 16 bits */
        memcpy(&first, at, sizeof first);
        count = first.sh_info;
    }
    at = number < count ? ssi_binary_part(binary, h->e_phoff + number * sizeof *out, sizeof *out)
                        : NULL;
    if (at)
        memcpy(out, at, sizeof *out);
    return at != NULL;
}

/* The address at which the file asks to be mapped. */
static uint64_t wanted_address(const ssi_binary *binary)
{
    Elf64_Phdr program;

    for (unsigned i = 0; ssi_binary_program(binary, i, &program); i++)
        if (program.p_type == PT_LOAD)
            return program.p_vaddr - program.p_offset;
    return 0;
}

bool ssi_binary_map(int fd, ssi_binary *binary)
{
    struct stat status;
    void *bytes = MAP_FAILED;

    if (!fstat(fd, &status) && S_ISREG(status.st_mode) && status.st_size > 0)
        bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (bytes == MAP_FAILED)
        return false;
    *binary = (ssi_binary){bytes, (size_t)status.st_size, 0};
    return true;
}

bool ssi_binary_open(const ssi_target *target, const ssi_mapping *mapping, ssi_binary *binary)
{
    int fd = ssi_target_open(target, mapping);

    if (fd >= 0 && !ssi_build_id_fits(mapping->start, fd)) {
        close(fd);
        return false;
    }
    if (fd < 0 || !ssi_binary_map(fd, binary))
        return false;
    if (!header(binary)) {
        ssi_binary_close(binary);
        return false;
    }
    binary->bias = mapping->start - wanted_address(binary);
    return true;
}

void ssi_binary_close(ssi_binary *binary)
{
    munmap((void *)binary->bytes, binary->size);
}

/* Copy the section header NUMBER; false if there is none. */
static bool section(const ssi_binary *binary, unsigned number, Elf64_Shdr *out)
{
    const Elf64_Ehdr *h = header(binary);
    const void *at = number < h->e_shnum
                         ? ssi_binary_part(binary, h->e_shoff + number * sizeof *out, sizeof *out)
                         : NULL;

    if (at)
        memcpy(out, at, sizeof *out);
    return at != NULL;
}

/* The text at OFFSET of a table of texts is NAME. */
static bool is_named(const ssi_binary *binary, const Elf64_Shdr *texts, uint64_t offset,
                     const char *name)
{
    size_t length = strlen(name) + 1;
    const char *text = offset < texts->sh_size && length <= texts->sh_size - offset
                           ? ssi_binary_part(binary, texts->sh_offset + offset, length)
                           : NULL;

    return text && !memcmp(text, name, length);
}

static uint64_t find_in(const ssi_binary *binary, const Elf64_Shdr *symbols, const char *name)
{
    Elf64_Shdr texts;
    Elf64_Sym symbol;
    const unsigned char *all = ssi_binary_part(binary, symbols->sh_offset, symbols->sh_size);

    if (!all || !section(binary, symbols->sh_link, &texts))
        return 0;
    for (size_t i = 0; i < symbols->sh_size / sizeof symbol; i++) {
        memcpy(&symbol, all + i * sizeof symbol, sizeof symbol);
        if (symbol.st_shndx != SHN_UNDEF && symbol.st_value &&
            is_named(binary, &texts, symbol.st_name, name))
            return symbol.st_value + binary->bias;
    }
    return 0;
}

uint64_t ssi_binary_symbol(const ssi_binary *binary, const char *name)
{
    static const uint32_t kinds[] = {SHT_DYNSYM, SHT_SYMTAB};
    Elf64_Shdr s;

    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (unsigned i = 0; section(binary, i, &s); i++) {
            uint64_t found = s.sh_type == kinds[kind] ? find_in(binary, &s, name) : 0;

            if (found)
                return found;
        }
    return 0;
}

uint64_t ssi_binary_section(const ssi_binary *binary, const char *name)
{
    Elf64_Shdr names, s;

    if (!section(binary, header(binary)->e_shstrndx, &names))
        return 0;
    for (unsigned i = 0; section(binary, i, &s); i++)
        if (s.sh_addr && is_named(binary, &names, s.sh_name, name))
            return s.sh_addr + binary->bias;
    return 0;
}

/* The functions of a binary, stripped or not, by the sorted table of their unwind data. */

/* What every linker writes: version 1, the pointer of 4 bytes from here, a count of 4 bytes, rows
   of two differences of 4 bytes to the table's own start. */
static const unsigned char usual[] = {1, 0x1B, 3, 0x3B};
enum { HEAD = 12, ROW = 8 };

typedef struct table {
    const unsigned char *rows;
    uint32_t count;
    uint64_t address; /* of the table, in the target */
} table;

static bool find_table(const ssi_binary *binary, table *out)
{
    Elf64_Phdr program;

    for (unsigned i = 0; ssi_binary_program(binary, i, &program); i++) {
        if (program.p_type != PT_GNU_EH_FRAME || program.p_offset > binary->size ||
            binary->size - program.p_offset < HEAD)
            continue;
        out->address = program.p_vaddr + binary->bias;
        out->rows = binary->bytes + program.p_offset + HEAD;
        memcpy(&out->count, out->rows - 4, sizeof out->count);
        return !memcmp(out->rows - HEAD, usual, sizeof usual) &&
               out->count <= (binary->size - program.p_offset - HEAD) / ROW;
    }
    return false;
}

static uint64_t start_of(const table *t, uint32_t row)
{
    int32_t difference;

    memcpy(&difference, t->rows + (size_t)row * ROW, sizeof difference);
    return t->address + (uint64_t)(int64_t)difference;
}

uint64_t ssi_binary_function(const ssi_binary *binary, uint64_t address, uint64_t *size)
{
    table t;
    uint32_t low = 0, high;

    *size = 0;
    if (!find_table(binary, &t))
        return 0;
    high = t.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (start_of(&t, middle) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return 0;
    if (low < t.count)
        *size = start_of(&t, low) - start_of(&t, low - 1);
    return start_of(&t, low - 1);
}

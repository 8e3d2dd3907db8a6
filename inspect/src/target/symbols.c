#include "target/symbols.h"

#include "target/build_id.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* SIZE bytes at OFFSET of the file, or NULL. */
static const void *part(const ssi_binary *binary, uint64_t offset, uint64_t size)
{
    return offset <= binary->size && size <= binary->size - offset ? binary->bytes + offset : NULL;
}

static const Elf64_Ehdr *header(const ssi_binary *binary)
{
    const Elf64_Ehdr *h = part(binary, 0, sizeof *h);

    return h && !memcmp(h->e_ident, ELFMAG, SELFMAG) && h->e_ident[EI_CLASS] == ELFCLASS64 &&
                   h->e_ident[EI_DATA] == ELFDATA2LSB
               ? h
               : NULL;
}

/* The address at which the file asks to be mapped. */
static uint64_t wanted_address(const ssi_binary *binary)
{
    const Elf64_Ehdr *h = header(binary);
    Elf64_Phdr program;

    for (unsigned i = 0; i < h->e_phnum; i++) {
        const void *at = part(binary, h->e_phoff + i * sizeof program, sizeof program);

        if (!at)
            break;
        memcpy(&program, at, sizeof program);
        if (program.p_type == PT_LOAD)
            return program.p_vaddr - program.p_offset;
    }
    return 0;
}

bool ssi_binary_open(const ssi_target *target, const ssi_mapping *mapping, ssi_binary *binary)
{
    struct stat status;
    int fd = ssi_target_open(target, mapping);
    void *bytes = MAP_FAILED;

    if (fd < 0)
        return false;
    if (!fstat(fd, &status) && S_ISREG(status.st_mode) && status.st_size > 0 &&
        ssi_build_id_fits(&target->memory, mapping->start, fd))
        bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (bytes == MAP_FAILED)
        return false;
    *binary = (ssi_binary){bytes, (size_t)status.st_size, 0};
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
    const void *at =
        number < h->e_shnum ? part(binary, h->e_shoff + number * sizeof *out, sizeof *out) : NULL;

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
                           ? part(binary, texts->sh_offset + offset, length)
                           : NULL;

    return text && !memcmp(text, name, length);
}

static uint64_t find_in(const ssi_binary *binary, const Elf64_Shdr *symbols, const char *name)
{
    Elf64_Shdr texts;
    Elf64_Sym symbol;
    const unsigned char *all = part(binary, symbols->sh_offset, symbols->sh_size);

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

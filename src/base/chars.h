/* Classes of characters. Not those of ctype.h, which ask the locale: in a Turkish one tolower
 * leaves "I" alone. */
#ifndef BASE_CHARS_H
#define BASE_CHARS_H

#include <stdbool.h>
#include <stdint.h>

static inline bool base_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static inline bool base_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool base_is_alnum(char c)
{
    return base_is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static inline bool base_is_lower_hex(char c)
{
    return base_is_digit(c) || (c >= 'a' && c <= 'f');
}

static inline char base_lower(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c + ('a' - 'A'));
    return c;
}

/* Of a code point: Cc of Unicode, which is C0, DEL and C1. */
static inline bool base_is_control(uint32_t point)
{
    return point < 0x20 || (point >= 0x7F && point <= 0x9F);
}

#endif

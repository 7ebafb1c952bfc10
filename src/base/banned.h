/*
 * Calls that do not compile here, and what to use instead. Included last by base.h, after the
 * system headers that declare them. Raw allocation is allowed in base/alloc.c alone, so that one
 * file decides what failure means.
 */
#ifndef BASE_BANNED_H
#define BASE_BANNED_H

#define BANNED(func) sorry_##func##_is_a_banned_function

#undef strcpy
#define strcpy(...) BANNED(strcpy) /* base_buf, plim_bytes */
#undef strcat
#define strcat(...) BANNED(strcat)
#undef strncpy
#define strncpy(...) BANNED(strncpy)
#undef strncat
#define strncat(...) BANNED(strncat)
#undef sprintf
#define sprintf(...) BANNED(sprintf) /* snprintf */
#undef vsprintf
#define vsprintf(...) BANNED(vsprintf)
#undef strtok
#define strtok(...) BANNED(strtok)
#undef gets
#define gets(...) BANNED(gets)
#undef gmtime
#define gmtime(...) BANNED(gmtime) /* gmtime_r */
#undef localtime
#define localtime(...) BANNED(localtime)
#undef ctime
#define ctime(...) BANNED(ctime)
#undef asctime
#define asctime(...) BANNED(asctime)
#undef strerror
#define strerror(...) BANNED(strerror) /* base_errno_text */
#undef atoi
#define atoi(...) BANNED(atoi) /* base_parse_int */
#undef atol
#define atol(...) BANNED(atol)
#undef atof
#define atof(...) BANNED(atof)
#undef system
#define system(...) BANNED(system)
#undef popen
#define popen(...) BANNED(popen)
#undef alloca
#define alloca(...) BANNED(alloca)
#undef rand
#define rand(...) BANNED(rand)
#undef fork
#define fork(...) BANNED(fork) /* posix_spawn: the daemon has threads */

#ifndef BASE_ALLOC_IMPLEMENTATION
#undef malloc
#define malloc(...) BANNED(malloc) /* base_alloc */
#undef calloc
#define calloc(...) BANNED(calloc)
#undef realloc
#define realloc(...) BANNED(realloc)
#undef strdup
#define strdup(...) BANNED(strdup) /* base_strdup */
#undef strndup
#define strndup(...) BANNED(strndup)
#undef asprintf
#define asprintf(...) BANNED(asprintf)
#undef vasprintf
#define vasprintf(...) BANNED(vasprintf)
#endif

#endif

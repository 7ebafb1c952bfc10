/*
 * Scope cleanup and the one word for handing ownership over. `_cleanup_(fn)` runs fn(&variable)
 * when the variable goes out of scope; TAKE_PTR and TAKE_FD return a value and disarm its cleanup,
 * so that a transfer can be found with grep.
 */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#define _cleanup_(fn) __attribute__((cleanup(fn)))

#define TAKE_PTR(ptr)                                                                              \
    ({                                                                                             \
        __auto_type take_ptr_value_ = (ptr);                                                       \
        (ptr) = NULL;                                                                              \
        take_ptr_value_;                                                                           \
    })

#define TAKE_FD(fd)                                                                                \
    ({                                                                                             \
        int take_fd_value_ = (fd);                                                                 \
        (fd) = -1;                                                                                 \
        take_fd_value_;                                                                            \
    })

/* Define `name(type **)` for _cleanup_ from a `free_fn(type *)` that accepts NULL. */
#define BASE_CLEANUP_FN(type, free_fn, name)                                                       \
    static inline void name(type **slot)                                                           \
    {                                                                                              \
        if (*slot)                                                                                 \
            free_fn(*slot);                                                                        \
        *slot = NULL;                                                                              \
    }

#define PLIM_UNUSED       __attribute__((unused))
#define PLIM_MUST_USE     __attribute__((warn_unused_result))
#define PLIM_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define PLIM_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif

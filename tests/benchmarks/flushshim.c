/* Preloaded into a process, counts how often it makes the disk flush, and can stand in for the disk.
 *
 * A flush is a call that returns when data are on the disk: fsync, fdatasync, syncfs, msync with MS_SYNC, and a
 * write to a file that was opened with O_SYNC or O_DSYNC, as LMDB opens its file once more for the page that a
 * commit ends with. (A descriptor made by dup is not known; LMDB makes none.)
 *
 * FLUSH_US=n in the environment makes each flush take n microseconds and do nothing: a disk that is equally fast
 * each time. Without it the flushes are those of the disk.
 *
 * The process asks by flushes_so_far(). See tests/support/flushes.py, which compiles and loads this file.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MAX_FILES 65536

static atomic_long flushes;
static atomic_bool flushing[MAX_FILES]; /* by descriptor: whether each write to it is a flush */
static long pretended = -1;             /* microseconds; -1: flush */

long flushes_so_far(void) { return atomic_load(&flushes); }

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("FLUSH_US");
    if (text && *text) pretended = strtol(text, NULL, 10);
}

/* Counts a flush, and returns whether it is only pretended, and over. */
static bool flush(void) {
    atomic_fetch_add(&flushes, 1);
    if (pretended < 0) return false;
    struct timespec left = {pretended / 1000000, pretended % 1000000 * 1000};
    while (nanosleep(&left, &left) && errno == EINTR) {}
    return true;
}

/* Makes `real` the function that this one hides. */
#define HIDDEN(name)                                     \
    static __typeof__(&name) real;                       \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int fsync(int file) {
    HIDDEN(fsync);
    return flush() ? 0 : real(file);
}

int fdatasync(int file) {
    HIDDEN(fdatasync);
    return flush() ? 0 : real(file);
}

int syncfs(int file) {
    HIDDEN(syncfs);
    return flush() ? 0 : real(file);
}

int msync(void *start, size_t size, int flags) {
    HIDDEN(msync);
    return (flags & MS_SYNC) && flush() ? 0 : real(start, size, flags);
}

/* O_SYNC contains the bit of O_DSYNC. */
static int without_flush(int flags) { return pretended < 0 ? flags : flags & ~(O_SYNC | O_DSYNC); }

static int opened(int file, int flags) {
    if (file >= 0 && file < MAX_FILES) atomic_store(&flushing[file], (flags & O_DSYNC) != 0);
    return file;
}

/* The third argument of open is there only when a file may be made. */
#define MODE(flags, mode)                                          \
    mode_t mode = 0;                                               \
    if ((flags) & O_CREAT || ((flags) & O_TMPFILE) == O_TMPFILE) { \
        va_list rest;                                              \
        va_start(rest, flags);                                     \
        mode = va_arg(rest, mode_t);                               \
        va_end(rest);                                              \
    }

#define OPEN(name)                                                    \
    int name(const char *path, int flags, ...) {                      \
        HIDDEN(name);                                                 \
        MODE(flags, mode)                                             \
        return opened(real(path, without_flush(flags), mode), flags); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                             \
    int name(int directory, const char *path, int flags, ...) {                  \
        HIDDEN(name);                                                            \
        MODE(flags, mode)                                                        \
        return opened(real(directory, path, without_flush(flags), mode), flags); \
    }
OPENAT(openat)
OPENAT(openat64)

int close(int file) {
    HIDDEN(close);
    if (file >= 0 && file < MAX_FILES) atomic_store(&flushing[file], false);
    return real(file);
}

static ssize_t written(int file, ssize_t size) {
    if (size >= 0 && file >= 0 && file < MAX_FILES && atomic_load(&flushing[file])) flush();
    return size;
}

ssize_t write(int file, const void *data, size_t size) {
    HIDDEN(write);
    return written(file, real(file, data, size));
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    HIDDEN(writev);
    return written(file, real(file, parts, count));
}

#define PWRITE(name, place_t)                                                \
    ssize_t name(int file, const void *data, size_t size, place_t place) {   \
        HIDDEN(name);                                                        \
        return written(file, real(file, data, size, place));                 \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define PWRITEV(name, place_t)                                                      \
    ssize_t name(int file, const struct iovec *parts, int count, place_t place) {   \
        HIDDEN(name);                                                               \
        return written(file, real(file, parts, count, place));                      \
    }
PWRITEV(pwritev, off_t)
PWRITEV(pwritev64, off64_t)

#define PWRITEV2(name, place_t)                                                              \
    ssize_t name(int file, const struct iovec *parts, int count, place_t place, int flags) { \
        HIDDEN(name);                                                                        \
        return written(file, real(file, parts, count, place, flags));                        \
    }
PWRITEV2(pwritev2, off_t)
PWRITEV2(pwritev64v2, off64_t)

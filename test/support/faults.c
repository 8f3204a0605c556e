/* Faults of the system that no test can ask it for, loaded into real processes by LD_PRELOAD.

TFAIP_TEST_DISK="NUMBER CALLS PART AFTER": each of the calls (write,sync,open,rename,mkdir; joined by commas) on a path
that contains PART fails with this errno as soon as the path AFTER exists. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
/* openat2(2), renameat(2) and the like are not called by Python or by Rust's standard library for these files. */

static int fails(const char *call, const char *path) {
  const char *given = getenv("TFAIP_TEST_DISK");
  char calls[64], part[512], after[PATH_MAX];
  int number, before = errno;
  if (!given || sscanf(given, "%d %63s %511s %4095s", &number, calls, part, after) != 4) return 0;
  int is_due = strstr(calls, call) && strstr(path, part) && access(after, F_OK) == 0;
  errno = is_due ? number : before;
  return is_due;
}

static int descriptor_fails(const char *call, int descriptor) {
  char link[64], path[PATH_MAX];
  if (!getenv("TFAIP_TEST_DISK")) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return fails(call, path);
}

ssize_t write(int descriptor, const void *content, size_t size) {
  return descriptor_fails("write", descriptor) ? -1 : NEXT(write)(descriptor, content, size);
}

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
  return descriptor_fails("write", descriptor) ? -1 : NEXT(writev)(descriptor, parts, count);
}

ssize_t pwrite64(int descriptor, const void *content, size_t size, off64_t offset) {
  return descriptor_fails("write", descriptor) ? -1 : NEXT(pwrite64)(descriptor, content, size, offset);
}

int fsync(int descriptor) { return descriptor_fails("sync", descriptor) ? -1 : NEXT(fsync)(descriptor); }

#define OPEN(name)                                                                  \
  int name(const char *path, int flags, ...) {                                      \
    va_list rest;                                                                   \
    va_start(rest, flags);                                                          \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;         \
    va_end(rest);                                                                   \
    if ((flags & (O_CREAT | O_WRONLY | O_RDWR)) && fails("open", path)) return -1;  \
    return NEXT(name)(path, flags, mode);                                           \
  }
OPEN(open)
OPEN(open64)

int rename(const char *source, const char *target) {
  return fails("rename", target) ? -1 : NEXT(rename)(source, target);
}

int renameat2(int from, const char *source, int to, const char *target, unsigned int flags) {
  return fails("rename", target) ? -1 : NEXT(renameat2)(from, source, to, target, flags);
}

int mkdir(const char *path, mode_t mode) { return fails("mkdir", path) ? -1 : NEXT(mkdir)(path, mode); }

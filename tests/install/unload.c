/* Usage: unload LIBKILN DATABASE. Multiplies through a libkiln opened by dlopen, on one thread and
 * on two, closes it, and goes on. Once it has started threads it stays mapped, because they run its
 * code; before, dlclose() unloads it. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kiln/kiln.h"

struct job {
  void* library;
  const char* database;
  int threads;
  const char* wrong; /* NULL when all went well */
};

static int is_mapped(const char* name) {
  char line[4096];
  int found = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps)) found |= strstr(line, name) != NULL;
  if (maps) fclose(maps);
  return found;
}

#define FUNCTION(type, name)                           \
  type = NULL;                                         \
  *(void**)&name = dlsym(job->library, "kiln_" #name); \
  if (!name) return job->wrong = #name, NULL

/* On a thread of its own: memory that a thread keeps for the library pins it until the thread ends.
 */
static void* multiply(void* argument) {
  enum { kSize = 96 };
  static float a[kSize * kSize], b[kSize * kSize], d[kSize * kSize];
  struct job* job = argument;
  kiln_options options;
  kiln_gemm_desc desc;
  kiln_operands operands;
  kiln_engine* engine = NULL;
  int i;
  FUNCTION(void (*options_init_sized)(kiln_options*, size_t), options_init_sized);
  FUNCTION(void (*operands_init_sized)(kiln_operands*, size_t), operands_init_sized);
  FUNCTION(void (*gemm_desc_init_sized)(kiln_gemm_desc*, size_t, int64_t, int64_t, int64_t, int),
           gemm_desc_init_sized);
  FUNCTION(kiln_status(*open)(const kiln_options*, kiln_engine**), open);
  FUNCTION(kiln_status(*gemm)(kiln_engine*, const kiln_gemm_desc*, const kiln_operands*), gemm);
  FUNCTION(void (*close)(kiln_engine*), close);
  options_init_sized(&options, sizeof options);
  options.database = job->database;
  options.threads = job->threads;
  if (open(&options, &engine) != KILN_OK) return job->wrong = "kiln_open", NULL;
  gemm_desc_init_sized(&desc, sizeof desc, kSize, kSize, kSize, KILN_FP32);
  operands_init_sized(&operands, sizeof operands);
  for (i = 0; i < kSize * kSize; ++i) a[i] = b[i] = 1.0f;
  operands.a = a;
  operands.b = b;
  operands.d = d;
  if (gemm(engine, &desc, &operands) != KILN_OK) job->wrong = "kiln_gemm";
  for (i = 0; i < kSize * kSize; ++i)
    if (d[i] != kSize) job->wrong = "the product";
  close(engine);
  return NULL;
}

int main(int count, char** words) {
  int threads;
  const int most = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 2 : 1;
  if (count != 3) return 2;
  for (threads = 1; threads <= most; ++threads) {
    struct job job = {dlopen(words[1], RTLD_NOW | RTLD_LOCAL), words[2], threads, NULL};
    pthread_t thread;
    if (!job.library) return fprintf(stderr, "dlopen: %s\n", dlerror()), 1;
    if (pthread_create(&thread, NULL, multiply, &job) != 0) return 1;
    pthread_join(thread, NULL);
    if (job.wrong) return fprintf(stderr, "%d threads: %s\n", threads, job.wrong), 1;
    dlclose(job.library);
    if (is_mapped("libkiln.so") != (threads > 1))
      return fprintf(stderr, "%d threads: mapped after dlclose: %d\n", threads, threads == 1), 1;
  }
  usleep(10000); /* the library's threads wake up, and find their code */
  puts("unloaded");
  return 0;
}

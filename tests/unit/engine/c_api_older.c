/* A C99 program built against an older kiln.h: its structs end where that header's did. Behind each
 * lie bytes of the program's own, which the library must not touch; c_api_test.cpp calls it. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* What the older header declared: no scales, no GPU fields, no allow_vendor, no warnings. */
typedef struct kiln_matrix {
  int dtype, order, transposed;
  int64_t ld, batch_stride;
} kiln_matrix;
typedef struct kiln_gemm_desc {
  size_t size;
  int64_t m, n, k, batch;
  kiln_matrix a, b, c, d;
  int accumulator, bias, activation, residual, alignment, b_packed;
} kiln_gemm_desc;
typedef struct kiln_options {
  size_t size;
  const char *device, *database, *shipped;
  int policy, any_order;
} kiln_options;
typedef struct kiln_operands {
  size_t size;
  const void *a, *b, *packed_b, *c;
  void* d;
  const void *bias, *residual;
  double alpha, beta;
} kiln_operands;
typedef struct kiln_tune_report {
  size_t size;
  double median_ns, low_ns, high_ns;
  int measured, failed, already_tuned;
  double seconds;
  char config[256];
} kiln_tune_report;
typedef struct kiln_engine kiln_engine;

void kiln_gemm_desc_init_sized(kiln_gemm_desc*, size_t, int64_t, int64_t, int64_t, int);
void kiln_options_init_sized(kiln_options*, size_t);
void kiln_operands_init_sized(kiln_operands*, size_t);
void kiln_tune_report_init_sized(kiln_tune_report*, size_t);
int kiln_open(const kiln_options*, kiln_engine**);
void kiln_close(kiln_engine*);
int kiln_tune(kiln_engine*, const kiln_gemm_desc*, double, int, kiln_tune_report*);
int kiln_gemm(kiln_engine*, const kiln_gemm_desc*, const kiln_operands*);
const char* kiln_last_error(void);

#define EXPECT(condition)                                                            \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, \
              kiln_last_error());                                                    \
      return 1;                                                                      \
    }                                                                                \
  } while (0)

enum { kGuard = 4096, kMark = 0x5a };
#define GUARDED(type)          \
  struct {                     \
    type value;                \
    unsigned char own[kGuard]; \
  }

static int untouched(const unsigned char* own) {
  int i;
  for (i = 0; i < kGuard; ++i)
    if (own[i] != kMark) return 0;
  return 1;
}

int use_kiln_with_older_header(const char* database) {
  GUARDED(kiln_options) options;
  GUARDED(kiln_gemm_desc) desc;
  GUARDED(kiln_operands) operands;
  GUARDED(kiln_tune_report) report;
  kiln_engine* engine = NULL;
  float a[6] = {1, 2, 3, 4, 5, 6}, b[12] = {1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1}, d[8] = {0};
  const float expected[8] = {1, 2, 3, 6, 4, 5, 6, 15};
  size_t size;

  memset(&options, kMark, sizeof options);
  memset(&desc, kMark, sizeof desc);
  memset(&operands, kMark, sizeof operands);
  memset(&report, kMark, sizeof report);
  kiln_options_init_sized(&options.value, sizeof options.value);
  kiln_gemm_desc_init_sized(&desc.value, sizeof desc.value, 2, 4, 3, 0);
  kiln_operands_init_sized(&operands.value, sizeof operands.value);
  kiln_tune_report_init_sized(&report.value, sizeof report.value);
  EXPECT(options.value.size == sizeof options.value && untouched(options.own));
  EXPECT(desc.value.size == sizeof desc.value && untouched(desc.own));
  EXPECT(operands.value.size == sizeof operands.value && untouched(operands.own));
  EXPECT(report.value.size == sizeof report.value && untouched(report.own));
  EXPECT(desc.value.batch == 1 && desc.value.alignment == 1 && operands.value.alpha == 1.0);

  /* The marks behind the structs would be wrong values of the fields that came later. */
  options.value.database = database;
  EXPECT(kiln_open(&options.value, &engine) == 0);
  operands.value.a = a;
  operands.value.b = b;
  operands.value.d = d;
  EXPECT(kiln_gemm(engine, &desc.value, &operands.value) == 0);
  EXPECT(memcmp(d, expected, sizeof d) == 0);
  desc.value.m = 0;
  EXPECT(kiln_tune(engine, &desc.value, 0, 0, &report.value) == 0);
  EXPECT(report.value.already_tuned == 1 && strcmp(report.value.config, "reference") == 0);
  EXPECT(untouched(report.own) && report.value.size == sizeof report.value);

  /* Sizes that no header ever had. */
  for (size = 0; size < 60; size += 3) {
    desc.value.size = size;
    EXPECT(kiln_gemm(engine, &desc.value, &operands.value) == 1);
    EXPECT(strstr(kiln_last_error(), "desc->size = ") != NULL);
  }
  desc.value.size = sizeof desc.value - 1;
  EXPECT(kiln_gemm(engine, &desc.value, &operands.value) == 1);
  desc.value.size = (size_t)-8;
  EXPECT(kiln_gemm(engine, &desc.value, &operands.value) == 1);
  kiln_close(engine);
  return 0;
}

/* A C99 program's use of kiln.h; c_api_test.cpp calls it. */
#include <stdio.h>
#include <string.h>

#include "kiln/kiln.h"

#define EXPECT(condition)                                                            \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, \
              kiln_last_error());                                                    \
      return 1;                                                                      \
    }                                                                                \
  } while (0)

static int product(kiln_engine* engine, kiln_gemm_desc* desc) {
  float a[6] = {1, 2, 3, 4, 5, 6}, b[12] = {1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1}, d[8];
  const float expected[8] = {1, 2, 3, 6, 4, 5, 6, 15};
  kiln_operands operands;
  kiln_plan* plan = NULL;
  kiln_packed_b* packed = NULL;
  char* text = NULL;

  kiln_operands_init(&operands);
  operands.a = a;
  operands.b = b;
  operands.d = d;
  EXPECT(kiln_gemm(engine, desc, &operands) == KILN_OK);
  EXPECT(memcmp(d, expected, sizeof d) == 0);

  memset(d, 0, sizeof d);
  EXPECT(kiln_plan_make(engine, desc, 0, &plan) == KILN_OK);
  EXPECT(kiln_plan_run(plan, &operands) == KILN_OK);
  EXPECT(memcmp(d, expected, sizeof d) == 0);
  kiln_plan_free(plan);

  EXPECT(kiln_explain(engine, desc, 0, &text) == KILN_OK);
  EXPECT(strstr(text, "fp32 N N 2 4 3") != NULL);
  kiln_string_free(text);

  memset(d, 0, sizeof d);
  EXPECT(kiln_pack_b(engine, desc, b, 0, &packed) == KILN_OK);
  EXPECT(kiln_packed_b_bytes(packed) >= sizeof b);
  desc->b_packed = 1;
  operands.b = NULL;
  operands.packed_b = packed;
  EXPECT(kiln_gemm(engine, desc, &operands) == KILN_OK);
  EXPECT(memcmp(d, expected, sizeof d) == 0);
  memset(d, 0, sizeof d);
  desc->m = 1; /* the same copy serves every m */
  EXPECT(kiln_gemm(engine, desc, &operands) == KILN_OK);
  EXPECT(memcmp(d, expected, 4 * sizeof d[0]) == 0 && d[4] == 0);
  desc->n = 5;
  EXPECT(kiln_gemm(engine, desc, &operands) == KILN_BAD_INPUT);
  EXPECT(strstr(kiln_last_error(), "packed_b: packed for n = 4, not n = 5") != NULL);
  desc->m = 2;
  desc->n = 4;
  kiln_packed_b_free(packed);
  desc->b_packed = 0;
  return 0;
}

/* fp4 against fp8, with an exponent for every 32 of k: 3 * 1 summed over k, doubled on one side. */
static int scaled_product(kiln_engine* engine) {
  uint8_t a[16], b[32];
  uint32_t scale_a = 128, scale_b = 127; /* 2 and 1, each in the first byte */
  float d[1] = {0};
  kiln_gemm_desc desc;
  kiln_operands operands;

  memset(a, 0x55, sizeof a); /* e2m1: 3 */
  memset(b, 0x38, sizeof b); /* e4m3: 1 */
  kiln_gemm_desc_init(&desc, 1, 1, 32, KILN_FP4_E2M1);
  desc.b.dtype = KILN_FP8_E4M3;
  desc.c.dtype = desc.d.dtype = KILN_FP32;
  kiln_operands_init(&operands);
  operands.a = a;
  operands.b = b;
  operands.d = d;
  EXPECT(kiln_gemm(engine, &desc, &operands) == KILN_UNSUPPORTED);
  EXPECT(strstr(kiln_last_error(), "scale_a = none") != NULL);
  desc.scale_a = desc.scale_b = KILN_SCALE_MX_32;
  EXPECT(kiln_gemm(engine, &desc, &operands) == KILN_BAD_INPUT);
  EXPECT(strstr(kiln_last_error(), "scale_a = null") != NULL);
  operands.scale_a = &scale_a;
  operands.scale_b = &scale_b;
  EXPECT(kiln_gemm(engine, &desc, &operands) == KILN_OK);
  EXPECT(d[0] == 192.0f);
  return 0;
}

static int mistakes(kiln_engine* engine, kiln_gemm_desc* desc) {
  kiln_operands operands;
  kiln_gemm_desc wrong = *desc;
  kiln_engine* other = (kiln_engine*)engine;
  kiln_options options;

  kiln_operands_init(&operands);
  EXPECT(kiln_gemm(engine, desc, &operands) == KILN_BAD_INPUT);
  EXPECT(strstr(kiln_last_error(), "null") != NULL);
  EXPECT(kiln_gemm(NULL, desc, &operands) == KILN_BAD_INPUT);
  EXPECT(strstr(kiln_last_error(), "engine = null") != NULL);
  EXPECT(kiln_gemm(engine, NULL, &operands) == KILN_BAD_INPUT);
  EXPECT(kiln_gemm(engine, desc, NULL) == KILN_BAD_INPUT);
  wrong.size = 3;
  EXPECT(kiln_gemm(engine, &wrong, &operands) == KILN_BAD_INPUT);
  EXPECT(strstr(kiln_last_error(), "desc->size = 3") != NULL);
  wrong = *desc;
  wrong.a.ld = 1;
  EXPECT(kiln_gemm(engine, &wrong, &operands) == KILN_BAD_INPUT);
  EXPECT(strstr(kiln_last_error(), "a.ld = 1") != NULL);
  wrong = *desc;
  memset(&wrong.a.dtype, 0x7f, sizeof wrong.a.dtype);
  EXPECT(kiln_gemm(engine, &wrong, &operands) == KILN_BAD_INPUT);
  EXPECT(strstr(kiln_last_error(), "a.dtype") != NULL);
  wrong = *desc;
  wrong.b.dtype = KILN_FP64;
  EXPECT(kiln_tune(engine, &wrong, 1.0, 0, NULL) == KILN_UNSUPPORTED);

  kiln_options_init(&options);
  options.device = "abacus";
  EXPECT(kiln_open(&options, &other) == KILN_BAD_INPUT);
  EXPECT(other == NULL);
  EXPECT(strstr(kiln_last_error(), "device = abacus") != NULL);
  EXPECT(strcmp(kiln_status_name(KILN_BAD_INPUT), "bad input") == 0);
  EXPECT(strcmp(kiln_status_name(KILN_OK), "ok") == 0);
  kiln_close(NULL);
  kiln_plan_free(NULL);
  kiln_packed_b_free(NULL);
  kiln_string_free(NULL);
  return 0;
}

int use_kiln_from_c(const char* database) {
  kiln_engine* engine = NULL;
  kiln_options options;
  kiln_gemm_desc desc;
  kiln_tune_report report;

  kiln_options_init(&options);
  options.database = database;
  options.threads = 1;
  EXPECT(kiln_open(&options, &engine) == KILN_OK);
  EXPECT(strlen(kiln_version()) >= 5);
  kiln_gemm_desc_init(&desc, 2, 4, 3, KILN_FP32);
  if (product(engine, &desc) != 0 || mistakes(engine, &desc) != 0) return 1;
  if (scaled_product(engine) != 0) return 1;

  kiln_gemm_desc_init(&desc, 0, 4, 3, KILN_FP32);
  kiln_tune_report_init(&report);
  EXPECT(kiln_tune(engine, &desc, 0, 0, &report) == KILN_OK);
  EXPECT(report.already_tuned == 1);
  EXPECT(strcmp(report.config, "reference") == 0);
  EXPECT(report.stored == 1 && report.warning_count == 0 && report.warnings[0] == '\0');
  kiln_close(engine);
  return 0;
}

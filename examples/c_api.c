/* The same from C: every call returns a status, and kiln_last_error() says what was wrong. */
#include <kiln/kiln.h>
#include <stdio.h>
#include <stdlib.h>

static int check(const char* call, kiln_status status) {
  if (status != KILN_OK)
    fprintf(stderr, "%s: %s: %s\n", call, kiln_status_name(status), kiln_last_error());
  return status == KILN_OK;
}

static int multiply(kiln_engine* engine, const float* a, const float* b, float* d, int size) {
  kiln_gemm_desc gemm;
  kiln_gemm_desc_init(&gemm, size, size, size, KILN_FP32);

  kiln_tune_report report;
  kiln_tune_report_init(&report);
  if (!check("kiln_tune", kiln_tune(engine, &gemm, 2.0, 1, &report))) return 0;
  printf("%d candidates measured, the best takes %.0f ns: %s\n", report.measured, report.median_ns,
         report.config);

  kiln_operands operands;
  kiln_operands_init(&operands);
  operands.a = a;
  operands.b = b;
  operands.d = d;
  operands.threads = 1;
  if (!check("kiln_gemm", kiln_gemm(engine, &gemm, &operands))) return 0;

  /* A wrong call is refused with the field and the value. */
  gemm.k = -1;
  if (kiln_gemm(engine, &gemm, &operands) != KILN_BAD_INPUT) return 0;
  printf("refused: %s\n", kiln_last_error());
  return 1;
}

int main(void) {
  enum { kSize = 128 };
  float* a = malloc(sizeof(float) * kSize * kSize);
  float* b = malloc(sizeof(float) * kSize * kSize);
  float* d = calloc(kSize * kSize, sizeof(float));
  kiln_engine* engine = NULL;
  int ok = a && b && d && check("kiln_open", kiln_open(NULL, &engine));
  for (int i = 0; ok && i < kSize * kSize; ++i) {
    a[i] = 1.0f;
    b[i] = (float)(i % kSize);
  }
  ok = ok && multiply(engine, a, b, d, kSize);
  for (int i = 0; ok && i < kSize * kSize; ++i) ok = d[i] == (float)(kSize * (i % kSize));
  printf("kiln %s: %s\n", kiln_version(), ok ? "right" : "wrong");
  kiln_close(engine);
  free(a);
  free(b);
  free(d);
  return ok ? 0 : 1;
}

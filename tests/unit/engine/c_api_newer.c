/* A C99 program built against a newer kiln.h, whose structs have fields that this library does not
 * know; c_api_test.cpp calls it. */
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

typedef struct newer_desc {
  kiln_gemm_desc known;
  double dropout;
} newer_desc;

int use_kiln_with_newer_header(const char* database) {
  newer_desc desc;
  kiln_options options;
  kiln_operands operands;
  kiln_engine* engine = NULL;
  float a[1] = {3}, b[1] = {5}, d[1] = {0};

  kiln_options_init(&options);
  options.database = database;
  EXPECT(kiln_open(&options, &engine) == KILN_OK);
  memset(&desc, 0x5a, sizeof desc);
  kiln_gemm_desc_init_sized(&desc.known, sizeof desc, 1, 1, 1, KILN_FP32);
  EXPECT(desc.known.size == sizeof desc && desc.dropout == 0);
  kiln_operands_init(&operands);
  operands.a = a;
  operands.b = b;
  operands.d = d;
  EXPECT(kiln_gemm(engine, &desc.known, &operands) == KILN_OK);
  EXPECT(d[0] == 15.0f);

  desc.dropout = 0.5;
  EXPECT(kiln_gemm(engine, &desc.known, &operands) == KILN_BAD_INPUT);
  EXPECT(strstr(kiln_last_error(), "a newer kiln") != NULL);
  kiln_close(engine);
  return 0;
}

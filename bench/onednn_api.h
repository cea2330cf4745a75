// The part of oneDNN 2 that the benchmark uses, bound at run time. Types come from its headers.
#pragma once

#if __has_include(<oneapi/dnnl/dnnl.h>)

#include <oneapi/dnnl/dnnl.h>

#include <string>
#include <type_traits>

#include "bench/library.h"

namespace kiln {

struct Onednn {
  Library library, openmp;
  dnnl_engine_t engine = nullptr;
  dnnl_stream_t stream = nullptr;
  int threads_now = 0;
  void (*omp_threads)(int) = nullptr;

#define KILN_DNNL(fn) decltype(&dnnl_##fn) fn = nullptr
  KILN_DNNL(version);
  KILN_DNNL(get_effective_cpu_isa);
  KILN_DNNL(engine_create);
  KILN_DNNL(stream_create);
  KILN_DNNL(stream_wait);
  KILN_DNNL(sgemm);
  KILN_DNNL(gemm_u8s8s32);
  KILN_DNNL(gemm_s8s8s32);
  KILN_DNNL(memory_desc_init_by_strides);
  KILN_DNNL(memory_desc_init_by_tag);
  KILN_DNNL(memory_desc_get_size);
  KILN_DNNL(memory_create);
  KILN_DNNL(memory_set_data_handle);
  KILN_DNNL(memory_destroy);
  KILN_DNNL(matmul_desc_init);
  KILN_DNNL(reorder_primitive_desc_create);
  KILN_DNNL(primitive_desc_create);
  KILN_DNNL(primitive_desc_query_md);
  KILN_DNNL(primitive_desc_destroy);
  KILN_DNNL(primitive_create);
  KILN_DNNL(primitive_execute);
  KILN_DNNL(primitive_destroy);
#undef KILN_DNNL

  /// False when a symbol is missing, naming it in `missing`.
  bool bind(std::string& missing) {
    const auto take = [&](auto& slot, const char* name) {
      slot = library.symbol<std::remove_reference_t<decltype(slot)>>(name);
      if (!slot && missing.empty()) missing = name;
    };
#define KILN_DNNL(fn) take(fn, "dnnl_" #fn)
    KILN_DNNL(version), KILN_DNNL(get_effective_cpu_isa), KILN_DNNL(engine_create);
    KILN_DNNL(stream_create), KILN_DNNL(stream_wait), KILN_DNNL(sgemm), KILN_DNNL(gemm_u8s8s32);
    KILN_DNNL(gemm_s8s8s32), KILN_DNNL(memory_desc_init_by_strides);
    KILN_DNNL(memory_desc_init_by_tag), KILN_DNNL(memory_desc_get_size), KILN_DNNL(memory_create);
    KILN_DNNL(memory_set_data_handle), KILN_DNNL(memory_destroy), KILN_DNNL(matmul_desc_init);
    KILN_DNNL(reorder_primitive_desc_create), KILN_DNNL(primitive_desc_create);
    KILN_DNNL(primitive_desc_query_md), KILN_DNNL(primitive_desc_destroy);
    KILN_DNNL(primitive_create), KILN_DNNL(primitive_execute), KILN_DNNL(primitive_destroy);
#undef KILN_DNNL
    return missing.empty();
  }

  /// oneDNN takes its thread count from OpenMP's, when a primitive is made and when it runs.
  void use_threads(int threads) {
    if (threads == threads_now) return;
    omp_threads(threads);
    threads_now = threads;
  }
};

}  // namespace kiln

#endif

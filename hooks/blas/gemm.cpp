// The functions of BLAS that kiln computes itself where it is faster: Fortran's and C's, with
// 32-bit and 64-bit integers. Everything else about a call, wrong arguments too, is the system
// library's.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>

#include "decision.h"
#include "hooks/common/once.h"
#include "system_library.h"

namespace kiln::hooks {
namespace {

// Values fixed by the CBLAS standard.
constexpr int kRowMajor = 101, kColumnMajor = 102;

/// Whether a letter of Fortran or a number of CBLAS means transposed; nothing: it means neither.
std::optional<bool> is_transposed(char letter) {
  switch (letter) {
    case 'n':
    case 'N':
      return false;
    case 't':
    case 'T':
    case 'c':
    case 'C':
      return true;
    default:
      return std::nullopt;
  }
}
std::optional<bool> is_transposed(int number) {
  if (number == 111) return false;
  if (number == 112 || number == 113) return true;
  return std::nullopt;
}

/// The operands of one call. `In` is std::uint16_t for bf16.
template <typename In, typename Out>
struct Call {
  const In *a, *b;
  Out* c;
  Out alpha, beta;
  std::int64_t m, n, k, lda, ldb, ldc;
  std::int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
};

template <typename In>
constexpr DType type_of() {
  if constexpr (std::is_same_v<In, float>)
    return fp32;
  else if constexpr (std::is_same_v<In, double>)
    return fp64;
  else
    return bf16;
}

/// As a row-major product: a column-major C is the transpose of a row-major one.
template <typename In, typename Out>
Product product_of(const Call<In, Out>& c, bool row_major, bool ta, bool tb) {
  Product p{.type = type_of<In>(), .threads = threads_now()};
  p.batch = c.batch, p.k = c.k, p.ldc = c.ldc, p.stride_c = c.stride_c;
  if (row_major) {
    p.transpose_a = ta, p.transpose_b = tb, p.m = c.m, p.n = c.n, p.lda = c.lda, p.ldb = c.ldb;
    p.stride_a = c.stride_a, p.stride_b = c.stride_b;
  } else {
    p.transpose_a = tb, p.transpose_b = ta, p.m = c.n, p.n = c.m, p.lda = c.ldb, p.ldb = c.lda;
    p.stride_a = c.stride_b, p.stride_b = c.stride_a;
  }
  return p;
}

template <typename In, typename Out>
Operands operands_of(const Call<In, Out>& c, bool row_major) {
  return {.a = row_major ? c.a : c.b,
          .b = row_major ? c.b : c.a,
          .c = c.c,
          .d = c.c,
          .alpha = static_cast<double>(c.alpha),
          .beta = static_cast<double>(c.beta)};
}

/// C = beta*C, as BLAS has it where alpha is 0: what A and B hold does not matter, nor C where beta
/// is 0 too.
template <typename In, typename Out>
void scale_c(const Call<In, Out>& call, bool row_major) {
  const std::int64_t lines = row_major ? call.m : call.n, length = row_major ? call.n : call.m;
  if (call.beta == 1) return;
  for (std::int64_t i = 0; i < call.batch; ++i)
    for (std::int64_t line = 0; line < lines; ++line) {
      Out* const c = call.c + i * call.stride_c + line * call.ldc;
      for (std::int64_t at = 0; at < length; ++at) c[at] = call.beta == 0 ? 0 : call.beta * c[at];
    }
}

/// `pass_on` calls the system's library; it is empty (nullptr_t) where that has no such function.
template <typename In, typename Out, typename PassOn>
void gemm(const Call<In, Out>& call, std::optional<bool> row_major, std::optional<bool> ta,
          std::optional<bool> tb, const char* name, bool has_function, PassOn&& pass_on) {
  const bool readable = row_major && ta && tb;
  const Product product = readable ? product_of(call, *row_major, *ta, *tb) : Product{};
  if (!readable || !is_sound(product)) {
    if (has_function) return pass_on();
    if (readable && (call.m == 0 || call.n == 0 || call.batch == 0)) return;
    if (!readable || call.k != 0) no_such_function(name);
  }
  if (!has_function) {
    if (call.alpha == 0) return scale_c(call, *row_major);
    if (!compute(product, operands_of(call, *row_major))) no_such_function(name);
    return;
  }
  // Without alpha BLAS reads neither A nor B, whatever they hold.
  const Decision* const known =
      call.alpha == 0 || !has_strides(product) ? nullptr : decision(product);
  if (known == nullptr) return pass_on();
  if (known->plan && known->plan->run(operands_of(call, *row_major))) return;
  if (!known->log || !known->log->wants_time()) {
    pass_on();
    if (known->log) known->log->add();
    return;
  }
  const auto before = std::chrono::steady_clock::now();
  pass_on();
  known->log->add(
      std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - before).count());
}

template <typename Int, typename In, typename Out>
using FortranGemm = void (*)(const char*, const char*, const Int*, const Int*, const Int*,
                             const Out*, const In*, const Int*, const In*, const Int*, const Out*,
                             Out*, const Int*, std::size_t, std::size_t);
template <typename Int, typename In, typename Out>
using CGemm = void (*)(int, int, int, Int, Int, Int, Out, const In*, Int, const In*, Int, Out, Out*,
                       Int);

/// Whether every number fits the integers of a library with 32-bit ones.
template <typename... Ints>
bool are_narrow(Ints... values) {
  return ((values >= std::numeric_limits<std::int32_t>::min() &&
           values <= std::numeric_limits<std::int32_t>::max()) &&
          ...);
}

template <typename Function>
Function function(const char* name, bool wide) {
  return reinterpret_cast<Function>(wide ? system_function_64(name) : system_function(name));
}

/// The system's function with the caller's integers; or with 32-bit ones, for 64-bit callers where
/// no library has those, as long as the sizes allow it.
template <typename Int, typename In, typename Out>
struct System {
  FortranGemm<Int, In, Out> fortran = nullptr;
  CGemm<Int, In, Out> c = nullptr;
  FortranGemm<std::int32_t, In, Out> narrow_fortran = nullptr;
  CGemm<std::int32_t, In, Out> narrow_c = nullptr;
};

template <typename Int, typename In, typename Out>
void fortran_gemm(const System<Int, In, Out>& system, const char* name, const char* ta,
                  const char* tb, const Int* m, const Int* n, const Int* k, const Out* alpha,
                  const In* a, const Int* lda, const In* b, const Int* ldb, const Out* beta, Out* c,
                  const Int* ldc, std::size_t ta_length, std::size_t tb_length) {
  const Call<In, Out> call{a, b, c, *alpha, *beta, *m, *n, *k, *lda, *ldb, *ldc};
  const bool narrow = system.fortran == nullptr && system.narrow_fortran != nullptr &&
                      are_narrow(*m, *n, *k, *lda, *ldb, *ldc);
  gemm(call, false, is_transposed(*ta), is_transposed(*tb), name,
       system.fortran != nullptr || narrow, [&] {
         if (!narrow)
           return system.fortran(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, ta_length,
                                 tb_length);
         const auto m32 = static_cast<std::int32_t>(*m), n32 = static_cast<std::int32_t>(*n),
                    k32 = static_cast<std::int32_t>(*k), lda32 = static_cast<std::int32_t>(*lda),
                    ldb32 = static_cast<std::int32_t>(*ldb),
                    ldc32 = static_cast<std::int32_t>(*ldc);
         system.narrow_fortran(ta, tb, &m32, &n32, &k32, alpha, a, &lda32, b, &ldb32, beta, c,
                               &ldc32, ta_length, tb_length);
       });
}

template <typename Int, typename In, typename Out>
void c_gemm(const System<Int, In, Out>& system, const char* name, int order, int ta, int tb, Int m,
            Int n, Int k, Out alpha, const In* a, Int lda, const In* b, Int ldb, Out beta, Out* c,
            Int ldc) {
  const Call<In, Out> call{a, b, c, alpha, beta, m, n, k, lda, ldb, ldc};
  const bool narrow =
      system.c == nullptr && system.narrow_c != nullptr && are_narrow(m, n, k, lda, ldb, ldc);
  const std::optional<bool> row_major = order == kRowMajor || order == kColumnMajor
                                            ? std::optional(order == kRowMajor)
                                            : std::nullopt;
  gemm(call, row_major, is_transposed(ta), is_transposed(tb), name, system.c != nullptr || narrow,
       [&] {
         if (!narrow) return system.c(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
         const auto i = [](Int value) { return static_cast<std::int32_t>(value); };
         system.narrow_c(order, ta, tb, i(m), i(n), i(k), alpha, a, i(lda), b, i(ldb), beta, c,
                         i(ldc));
       });
}

template <typename Int, typename T>
using CBatch = void (*)(int, int, int, Int, Int, Int, T, const T*, Int, Int, const T*, Int, Int, T,
                        T*, Int, Int, Int);

template <typename Int, typename T>
void c_batch(CBatch<Int, T> system, const char* name, int order, int ta, int tb, Int m, Int n,
             Int k, T alpha, const T* a, Int lda, Int stride_a, const T* b, Int ldb, Int stride_b,
             T beta, T* c, Int ldc, Int stride_c, Int batch) {
  const Call<T, T> call{a,   b,   c,   alpha, beta,     m,        n,       k,
                        lda, ldb, ldc, batch, stride_a, stride_b, stride_c};
  const std::optional<bool> row_major = order == kRowMajor || order == kColumnMajor
                                            ? std::optional(order == kRowMajor)
                                            : std::nullopt;
  gemm(call, row_major, is_transposed(ta), is_transposed(tb), name, system != nullptr, [&] {
    system(order, ta, tb, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, c, ldc,
           stride_c, batch);
  });
}

}  // namespace
}  // namespace kiln::hooks

using Bf16 = std::uint16_t;
using kiln::hooks::CBatch;
using kiln::hooks::CGemm;
using kiln::hooks::FortranGemm;
using kiln::hooks::Once;
using kiln::hooks::System;

/// One Fortran name and one of C. `LP64_*` are the names of the same functions with 32-bit
/// integers.
#define KILN_GEMM(INT, IN, OUT, FORTRAN, C, WIDE, LP64_FORTRAN, LP64_C)                            \
  extern "C" [[gnu::visibility("default")]] void FORTRAN(                                          \
      const char* ta, const char* tb, const INT* m, const INT* n, const INT* k, const OUT* alpha,  \
      const IN* a, const INT* lda, const IN* b, const INT* ldb, const OUT* beta, OUT* c,           \
      const INT* ldc, std::size_t ta_length, std::size_t tb_length) {                              \
    using Found = System<INT, IN, OUT>;                                                            \
    static Once<Found> system;                                                                     \
    const auto find = [] {                                                                         \
      return Found{.fortran = kiln::hooks::function<FortranGemm<INT, IN, OUT>>(#FORTRAN, WIDE),    \
                   .narrow_fortran = kiln::hooks::function<FortranGemm<std::int32_t, IN, OUT>>(    \
                       LP64_FORTRAN, false)};                                                      \
    };                                                                                             \
    kiln::hooks::fortran_gemm(system.get(find), #FORTRAN, ta, tb, m, n, k, alpha, a, lda, b, ldb,  \
                              beta, c, ldc, ta_length, tb_length);                                 \
  }                                                                                                \
  extern "C" [[gnu::visibility("default")]] void C(int order, int ta, int tb, INT m, INT n, INT k, \
                                                   OUT alpha, const IN* a, INT lda, const IN* b,   \
                                                   INT ldb, OUT beta, OUT* c, INT ldc) {           \
    using Found = System<INT, IN, OUT>;                                                            \
    static Once<Found> system;                                                                     \
    const auto find = [] {                                                                         \
      return Found{                                                                                \
          .c = kiln::hooks::function<CGemm<INT, IN, OUT>>(#C, WIDE),                               \
          .narrow_c = kiln::hooks::function<CGemm<std::int32_t, IN, OUT>>(LP64_C, false)};         \
    };                                                                                             \
    kiln::hooks::c_gemm(system.get(find), #C, order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, \
                        c, ldc);                                                                   \
  }

#define KILN_BATCH(INT, T, NAME, WIDE)                                                             \
  extern "C" [[gnu::visibility("default")]] void NAME(                                             \
      int order, int ta, int tb, INT m, INT n, INT k, T alpha, const T* a, INT lda, INT stride_a,  \
      const T* b, INT ldb, INT stride_b, T beta, T* c, INT ldc, INT stride_c, INT batch) {         \
    static Once<CBatch<INT, T>> system;                                                            \
    const auto find = [] { return kiln::hooks::function<CBatch<INT, T>>(#NAME, WIDE); };           \
    kiln::hooks::c_batch(system.get(find), #NAME, order, ta, tb, m, n, k, alpha, a, lda, stride_a, \
                         b, ldb, stride_b, beta, c, ldc, stride_c, batch);                         \
  }

KILN_GEMM(std::int32_t, float, float, sgemm_, cblas_sgemm, false, "sgemm_", "cblas_sgemm")
KILN_GEMM(std::int32_t, double, double, dgemm_, cblas_dgemm, false, "dgemm_", "cblas_dgemm")
KILN_GEMM(std::int32_t, Bf16, float, sbgemm_, cblas_sbgemm, false, "sbgemm_", "cblas_sbgemm")
KILN_GEMM(std::int64_t, float, float, sgemm_64_, cblas_sgemm64_, true, "sgemm_", "cblas_sgemm")
KILN_GEMM(std::int64_t, double, double, dgemm_64_, cblas_dgemm64_, true, "dgemm_", "cblas_dgemm")
KILN_GEMM(std::int64_t, float, float, sgemm64_, cblas_sgemm_64, true, "sgemm_", "cblas_sgemm")
KILN_GEMM(std::int64_t, double, double, dgemm64_, cblas_dgemm_64, true, "dgemm_", "cblas_dgemm")
KILN_BATCH(std::int32_t, float, cblas_sgemm_batch_strided, false)
KILN_BATCH(std::int32_t, double, cblas_dgemm_batch_strided, false)
KILN_BATCH(std::int64_t, float, cblas_sgemm_batch_strided_64, true)
KILN_BATCH(std::int64_t, double, cblas_dgemm_batch_strided_64, true)

/// By which kiln knows its own hook among libraries of BLAS (runtime/cpu/blas_library.cpp).
extern "C" [[gnu::visibility("default")]] const char kiln_blas_hook = 1;

// The part of oneDNN 2 and 3 that the benchmark calls, bound at run time. Both versions may be open
// in one process. The declarations are kiln's own, so that no headers are needed: the numbers are
// those of dnnl_types.h, the same in both versions. Knows nothing of peers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/library.h"
#include "bench/post_ops.h"
#include "kiln/error.hpp"

namespace kiln::onednn {

constexpr int kSuccess = 0;
constexpr int kMaxDims = 12;
enum class Type : int { fp16 = 1, bf16 = 2, fp32 = 3, s32 = 4, s8 = 5, u8 = 6 };
enum class Argument : int { source = 1, from = 1, destination = 17, to = 17, weights = 33 };
/// Bits of dnnl_version_t::cpu_runtime.
enum class Runtime : unsigned { sequential = 1, openmp = 2, tbb = 4, threadpool = 8 };

/// dnnl_version_t.
struct Version {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
};

// Objects of the library. A memory descriptor is a value in version 2 and a handle in version 3;
// both versions take its address.
struct Engine;
struct Stream;
struct Descriptor;
struct Memory;
struct PrimitiveDescriptor;
struct Primitive;
struct Attributes;
struct PostOps;

/// dnnl_exec_arg_t.
struct ExecutionArgument {
  Argument argument;
  Memory* memory;
};

using Sizes = std::array<std::int64_t, kMaxDims>;
/// A matrix, or a batch of them.
struct Tensor {
  Type type = Type::fp32;
  int dims = 0;
  Sizes sizes{}, strides{};
};

/// Matrices are row-major, transposes 'N' and 'T', fixed offsets 'F'.
using SingleGemm = int (*)(char ta, char tb, std::int64_t m, std::int64_t n, std::int64_t k,
                           float alpha, const float* a, std::int64_t lda, const float* b,
                           std::int64_t ldb, float beta, float* c, std::int64_t ldc);
template <typename A>
using IntegerGemm = int (*)(char ta, char tb, char offset_c, std::int64_t m, std::int64_t n,
                            std::int64_t k, float alpha, const A* a, std::int64_t lda, A offset_a,
                            const std::int8_t* b, std::int64_t ldb, std::int8_t offset_b,
                            float beta, std::int32_t* c, std::int64_t ldc,
                            const std::int32_t* offsets_c);

/// Functions with one signature in both versions. They return kSuccess, or what went wrong.
struct Functions {
  const Version* (*version)() = nullptr;
  int (*get_effective_cpu_isa)() = nullptr;
  int (*engine_create)(Engine**, int kind, std::size_t index) = nullptr;
  int (*stream_create)(Stream**, Engine*, unsigned flags) = nullptr;
  int (*stream_wait)(Stream*) = nullptr;
  SingleGemm sgemm = nullptr;
  IntegerGemm<std::uint8_t> gemm_u8s8s32 = nullptr;
  IntegerGemm<std::int8_t> gemm_s8s8s32 = nullptr;
  std::size_t (*memory_desc_get_size)(const Descriptor*) = nullptr;
  int (*memory_create)(Memory**, const Descriptor*, Engine*, void* data) = nullptr;
  int (*memory_set_data_handle)(Memory*, void* data) = nullptr;
  int (*memory_destroy)(Memory*) = nullptr;
  int (*reorder_primitive_desc_create)(PrimitiveDescriptor**, const Descriptor* from, Engine*,
                                       const Descriptor* to, Engine*, const Attributes*) = nullptr;
  int (*primitive_desc_query)(const PrimitiveDescriptor*, int what, int index,
                              void* result) = nullptr;
  /// What it returns lives as long as the primitive descriptor.
  const Descriptor* (*primitive_desc_query_md)(const PrimitiveDescriptor*, int what,
                                               int index) = nullptr;
  int (*primitive_desc_destroy)(PrimitiveDescriptor*) = nullptr;
  int (*primitive_create)(Primitive**, const PrimitiveDescriptor*) = nullptr;
  int (*primitive_execute)(const Primitive*, Stream*, int count,
                           const ExecutionArgument*) = nullptr;
  int (*primitive_destroy)(Primitive*) = nullptr;
  int (*primitive_attr_create)(Attributes**) = nullptr;
  int (*primitive_attr_set_post_ops)(Attributes*, const PostOps*) = nullptr;
  int (*primitive_attr_destroy)(Attributes*) = nullptr;
  int (*post_ops_create)(PostOps**) = nullptr;
  int (*post_ops_append_binary)(PostOps*, int algorithm, const Descriptor* other) = nullptr;
  int (*post_ops_destroy)(PostOps*) = nullptr;
};

/// One opened library with its engine and stream, which live as long as the process: its caches
/// outlive any object of ours.
class Api {
 public:
  /// `library` exports dnnl_version. Errors: device (a version that kiln does not know, a symbol
  /// that is missing, threads whose number cannot be set).
  static Result<std::shared_ptr<Api>> bind(const Library& library);
  virtual ~Api() = default;

  // A null descriptor says that the library refused it.
  virtual Descriptor* describe(const Tensor& tensor) const = 0;
  /// In whichever layout suits the primitive that it is given to.
  virtual Descriptor* describe_any_layout(const Tensor& tensor) const = 0;
  virtual void destroy(Descriptor* descriptor) const = 0;
  /// `attributes`: null, or those of what follows.
  virtual int create_matmul(PrimitiveDescriptor** matmul, const Descriptor* source,
                            const Descriptor* weights, const Descriptor* destination,
                            const Attributes* attributes) const = 0;
  /// Of a chain, `others` having the operand of each of its steps that has one, in order. Null: the
  /// library refused it.
  Attributes* attributes_of(std::span<const PostOp> chain,
                            std::span<const Descriptor* const> others) const;
  /// Which arguments of a matmul are the operands of those steps of its chain that have one.
  std::vector<Argument> arguments_of(const PrimitiveDescriptor* matmul,
                                     std::span<const std::size_t> steps) const;

  /// oneDNN takes its thread count from OpenMP's, when a primitive is made and when it runs. Set at
  /// every call, some nanoseconds: several libraries may share one OpenMP.
  void use_threads(int threads) const {
    if (omp_threads_) omp_threads_(threads);
  }
  bool one_thread_only() const { return !omp_threads_; }
  /// Which of its kernels it chose: "brg_matmul:avx512_core_bf16".
  std::string implementation(const PrimitiveDescriptor* primitive) const;

  int major() const { return call.version()->major; }
  std::string version_text() const;  // "oneDNN 3.13.1"
  const Library& library() const { return library_; }

  Functions call;
  Engine* engine = nullptr;
  Stream* stream = nullptr;

 protected:
  explicit Api(const Library& library) : library_(library) {}
  /// What one version alone has. Takes the names of missing symbols.
  virtual void bind_own(Symbols& symbols) = 0;
  /// The number of a function of one value: dnnl_alg_kind_t.
  virtual int number_of(Algorithm algorithm) const = 0;
  virtual int append_eltwise(PostOps* to, int algorithm, float alpha, float beta) const = 0;

 private:
  Status bind_all();
  Status set_up();

  Library library_;
  void (*omp_threads_)(int) = nullptr;
};

/// The layout of the weights that a primitive wants.
const Descriptor* weights_of(const Api& api, const PrimitiveDescriptor* primitive);

}  // namespace kiln::onednn

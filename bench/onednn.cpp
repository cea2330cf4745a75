#include "bench/onednn.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace kiln::onednn {
namespace {

constexpr int kCpu = 1;                  // dnnl_cpu
constexpr unsigned kInOrder = 1;         // dnnl_stream_default_flags
constexpr int kAnyLayout = 1;            // dnnl_format_tag_any
constexpr int kQueryImplementation = 8;  // dnnl_query_impl_info_str
constexpr int kQueryWeights = 131;       // dnnl_query_weights_md
constexpr int kQueryArgument = 255;      // dnnl_query_exec_arg_md
constexpr int kBinary = 0x1fff0;         // dnnl_binary_add, followed by the others
constexpr int kSecondSource = 2;         // DNNL_ARG_SRC_1
/// DNNL_ARG_ATTR_MULTIPLE_POST_OP_BASE, which grew within version 3.
constexpr int kPostOpArguments[] = {16384, 32768};

/// Numbers of the functions of one value, in the order of Algorithm.
using Numbers = std::array<int, static_cast<std::size_t>(Algorithm::add)>;

/// Descriptors are values, and an operation has one of its own. oneDNN 2.6 has 696 bytes for the
/// first and 2800 for the second; earlier versions of 2 have fewer.
class Api2 final : public Api {
 public:
  explicit Api2(const Library& library) : Api(library) {}

  Descriptor* describe(const Tensor& t) const override {
    auto room = std::make_unique<Room>();
    const int made = init_by_strides_(as_descriptor(room.get()), t.dims, t.sizes.data(), t.type,
                                      t.strides.data());
    return made == kSuccess ? as_descriptor(room.release()) : nullptr;
  }
  Descriptor* describe_any_layout(const Tensor& t) const override {
    auto room = std::make_unique<Room>();
    const int made =
        init_by_tag_(as_descriptor(room.get()), t.dims, t.sizes.data(), t.type, kAnyLayout);
    return made == kSuccess ? as_descriptor(room.release()) : nullptr;
  }
  void destroy(Descriptor* descriptor) const override {
    delete reinterpret_cast<Room*>(descriptor);
  }
  int create_matmul(PrimitiveDescriptor** matmul, const Descriptor* source,
                    const Descriptor* weights, const Descriptor* destination,
                    const Attributes* attributes) const override {
    alignas(16) std::array<std::byte, 8192> operation{};
    if (const int made = matmul_init_(operation.data(), source, weights, nullptr, destination);
        made != kSuccess)
      return made;
    return create_(matmul, operation.data(), attributes, engine, nullptr);
  }

 private:
  struct Room {
    alignas(16) std::array<std::byte, 2048> bytes{};
  };
  static Descriptor* as_descriptor(Room* room) { return reinterpret_cast<Descriptor*>(room); }

  void bind_own(Symbols& symbols) override {
    symbols.take(init_by_strides_, "dnnl_memory_desc_init_by_strides");
    symbols.take(init_by_tag_, "dnnl_memory_desc_init_by_tag");
    symbols.take(matmul_init_, "dnnl_matmul_desc_init");
    symbols.take(create_, "dnnl_primitive_desc_create");
    symbols.take(append_eltwise_, "dnnl_post_ops_append_eltwise");
  }
  int number_of(Algorithm algorithm) const override {
    constexpr Numbers kNumbers{0x1f, 0x2f, 0x4f, 0x5f, 0x6f, 0x7f, 0xaf,
                               0xbf, 0xcf, 0xdf, 0xef, 0xff, 0x30, 0x40};
    return kNumbers.at(static_cast<std::size_t>(algorithm));
  }
  int append_eltwise(PostOps* to, int algorithm, float alpha, float beta) const override {
    return append_eltwise_(to, 1, algorithm, alpha, beta);
  }

  int (*init_by_strides_)(Descriptor*, int dims, const std::int64_t* sizes, Type,
                          const std::int64_t* strides) = nullptr;
  int (*init_by_tag_)(Descriptor*, int dims, const std::int64_t* sizes, Type, int tag) = nullptr;
  int (*matmul_init_)(void* operation, const Descriptor* source, const Descriptor* weights,
                      const Descriptor* bias, const Descriptor* destination) = nullptr;
  int (*create_)(PrimitiveDescriptor**, const void* operation, const Attributes*, Engine*,
                 const PrimitiveDescriptor* forward) = nullptr;
  int (*append_eltwise_)(PostOps*, float scale, int algorithm, float alpha, float beta) = nullptr;
};

/// Descriptors are handles, and a primitive's is made in one step.
class Api3 final : public Api {
 public:
  explicit Api3(const Library& library) : Api(library) {}

  Descriptor* describe(const Tensor& t) const override {
    Descriptor* made = nullptr;
    const int status =
        create_with_strides_(&made, t.dims, t.sizes.data(), t.type, t.strides.data());
    return status == kSuccess ? made : nullptr;
  }
  Descriptor* describe_any_layout(const Tensor& t) const override {
    Descriptor* made = nullptr;
    const int status = create_with_tag_(&made, t.dims, t.sizes.data(), t.type, kAnyLayout);
    return status == kSuccess ? made : nullptr;
  }
  void destroy(Descriptor* descriptor) const override {
    if (descriptor) destroy_(descriptor);
  }
  int create_matmul(PrimitiveDescriptor** matmul, const Descriptor* source,
                    const Descriptor* weights, const Descriptor* destination,
                    const Attributes* attributes) const override {
    return create_matmul_(matmul, engine, source, weights, nullptr, destination, attributes);
  }

 private:
  void bind_own(Symbols& symbols) override {
    symbols.take(create_with_strides_, "dnnl_memory_desc_create_with_strides");
    symbols.take(create_with_tag_, "dnnl_memory_desc_create_with_tag");
    symbols.take(destroy_, "dnnl_memory_desc_destroy");
    symbols.take(create_matmul_, "dnnl_matmul_primitive_desc_create");
    symbols.take(append_eltwise_, "dnnl_post_ops_append_eltwise");
  }
  int number_of(Algorithm algorithm) const override {
    constexpr Numbers kNumbers{0x20, 0x21, 0x23, 0x24, 0x25, 0x26, 0x29,
                               0x2a, 0x2b, 0x2c, 0x2d, 0x2e, 0x31, 0x32};
    return kNumbers.at(static_cast<std::size_t>(algorithm));
  }
  int append_eltwise(PostOps* to, int algorithm, float alpha, float beta) const override {
    return append_eltwise_(to, algorithm, alpha, beta);
  }

  int (*create_with_strides_)(Descriptor**, int dims, const std::int64_t* sizes, Type,
                              const std::int64_t* strides) = nullptr;
  int (*create_with_tag_)(Descriptor**, int dims, const std::int64_t* sizes, Type,
                          int tag) = nullptr;
  int (*destroy_)(Descriptor*) = nullptr;
  int (*create_matmul_)(PrimitiveDescriptor**, Engine*, const Descriptor* source,
                        const Descriptor* weights, const Descriptor* bias,
                        const Descriptor* destination, const Attributes*) = nullptr;
  int (*append_eltwise_)(PostOps*, int algorithm, float alpha, float beta) = nullptr;
};

tl::unexpected<Error> refused(const Library& library, const std::string& why) {
  return fail(ErrorCode::device, fmt::format("{}: {}", library.path(), why));
}

void bind_functions(Functions& call, Symbols& symbols) {
#define KILN_DNNL(function) symbols.take(call.function, "dnnl_" #function)
  KILN_DNNL(version);
  KILN_DNNL(get_effective_cpu_isa);
  KILN_DNNL(engine_create);
  KILN_DNNL(stream_create);
  KILN_DNNL(stream_wait);
  KILN_DNNL(sgemm);
  KILN_DNNL(gemm_u8s8s32);
  KILN_DNNL(gemm_s8s8s32);
  KILN_DNNL(memory_desc_get_size);
  KILN_DNNL(memory_create);
  KILN_DNNL(memory_set_data_handle);
  KILN_DNNL(memory_destroy);
  KILN_DNNL(reorder_primitive_desc_create);
  KILN_DNNL(primitive_desc_query);
  KILN_DNNL(primitive_desc_query_md);
  KILN_DNNL(primitive_desc_destroy);
  KILN_DNNL(primitive_create);
  KILN_DNNL(primitive_execute);
  KILN_DNNL(primitive_destroy);
  KILN_DNNL(primitive_attr_create);
  KILN_DNNL(primitive_attr_set_post_ops);
  KILN_DNNL(primitive_attr_destroy);
  KILN_DNNL(post_ops_create);
  KILN_DNNL(post_ops_append_binary);
  KILN_DNNL(post_ops_destroy);
#undef KILN_DNNL
}

}  // namespace

Status Api::bind_all() {
  Symbols symbols(library_);
  bind_functions(call, symbols);
  bind_own(symbols);
  if (!symbols.missing().empty()) return refused(library_, "it lacks " + symbols.missing());
  return {};
}

Status Api::set_up() {
  const unsigned runtime = call.version()->cpu_runtime;
  if (runtime == unsigned(Runtime::openmp)) {
    // Whichever OpenMP the library was linked with: its handle finds symbols of what it needs too.
    Symbols openmp(library_);
    openmp.take(omp_threads_, "omp_set_num_threads");
    if (!omp_threads_)
      return refused(library_,
                     "it runs on OpenMP, and omp_set_num_threads is not in what it needs");
  } else if (runtime != unsigned(Runtime::sequential)) {
    return refused(library_, fmt::format("it runs on {}, whose number of threads cannot be set; "
                                         "built for OpenMP it can be raced",
                                         runtime == unsigned(Runtime::tbb) ? "TBB"
                                         : runtime == unsigned(Runtime::threadpool)
                                             ? "a thread pool of its caller"
                                             : fmt::format("runtime {}", runtime)));
  }
  if (call.engine_create(&engine, kCpu, 0) != kSuccess ||
      call.stream_create(&stream, engine, kInOrder) != kSuccess)
    return refused(library_, "dnnl_engine_create or dnnl_stream_create failed");
  return {};
}

Result<std::shared_ptr<Api>> Api::bind(const Library& library) {
  // A library that is opened again is the same one, with the same handle.
  static auto& bound = *new std::map<const void*, std::shared_ptr<Api>>;
  if (const auto known = bound.find(library.handle()); known != bound.end()) return known->second;
  const auto version = library.symbol<const Version* (*)()>("dnnl_version");
  if (!version) return refused(library, "it lacks dnnl_version");
  const int major = version()->major;
  std::shared_ptr<Api> api;
  if (major == 2)
    api = std::make_shared<Api2>(library);
  else if (major == 3)
    api = std::make_shared<Api3>(library);
  else
    return refused(library, fmt::format("oneDNN {}: kiln knows 2 and 3", major));
  if (Status ok = api->bind_all(); !ok) return tl::unexpected(ok.error());
  if (Status ok = api->set_up(); !ok) return tl::unexpected(ok.error());
  bound[library.handle()] = api;
  return api;
}

Attributes* Api::attributes_of(std::span<const PostOp> chain,
                               std::span<const Descriptor* const> others) const {
  PostOps* ops = nullptr;
  if (call.post_ops_create(&ops) != kSuccess) return nullptr;
  bool taken = true;
  for (const PostOp& op : chain) {
    if (!is_binary(op.algorithm)) {
      taken &= append_eltwise(ops, number_of(op.algorithm), op.alpha, op.beta) == kSuccess;
      continue;
    }
    const int algorithm = kBinary + int(op.algorithm) - int(Algorithm::add);
    taken &= call.post_ops_append_binary(ops, algorithm, others.front()) == kSuccess;
    others = others.subspan(1);
  }
  Attributes* made = nullptr;
  taken = taken && call.primitive_attr_create(&made) == kSuccess &&
          call.primitive_attr_set_post_ops(made, ops) == kSuccess;  // which copies them
  call.post_ops_destroy(ops);
  if (!taken && made) call.primitive_attr_destroy(std::exchange(made, nullptr));
  return made;
}

std::vector<Argument> Api::arguments_of(const PrimitiveDescriptor* matmul,
                                        std::span<const std::size_t> steps) const {
  const auto argument = [](int base, std::size_t step) {
    return Argument((base * (int(step) + 1)) | kSecondSource);
  };
  std::vector<Argument> all;
  if (steps.empty()) return all;
  // In the larger base, what is the first step's in the smaller one is that of an earlier step.
  const Descriptor* const first = call.primitive_desc_query_md(
      matmul, kQueryArgument, int(argument(kPostOpArguments[0], steps.front())));
  const bool small = first && call.memory_desc_get_size(first) > 0;
  for (const std::size_t step : steps)
    all.push_back(argument(kPostOpArguments[small ? 0 : 1], step));
  return all;
}

std::string Api::implementation(const PrimitiveDescriptor* primitive) const {
  const char* text = nullptr;
  const int told = call.primitive_desc_query(primitive, kQueryImplementation, 0, &text);
  return told == kSuccess && text ? text : "";
}

std::string Api::version_text() const {
  const Version* v = call.version();
  return fmt::format("oneDNN {}.{}.{}", v->major, v->minor, v->patch);
}

const Descriptor* weights_of(const Api& api, const PrimitiveDescriptor* primitive) {
  return api.call.primitive_desc_query_md(primitive, kQueryWeights, 0);
}

}  // namespace kiln::onednn

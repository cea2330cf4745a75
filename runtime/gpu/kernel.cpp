#include "runtime/gpu/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "generator/problem/operands.h"

namespace kiln::gpu {
namespace {

/// Clusters of more blocks than this need the device's consent.
constexpr std::int64_t kPortableCluster = 8;

/// CUtensorMapDataType of each MapElement, in its order.
constexpr std::array<int, 9> kElementCodes{0, 1, 2, 3, 6, 9, 7, 8, 11};
/// CUtensorMapInterleave and CUtensorMapFloatOOBfill: none.
constexpr int kNone = 0;

/// Codes of a driver that refuses the bytes: invalid image, no binary for this GPU, invalid PTX,
/// PTX of a newer toolkit, invalid source. The numbers are the same in CUDA and HIP. All others are
/// troubles of the machine: no memory, a lost context.
bool refuses_image(Code code) {
  constexpr std::array kRefusals{200, 209, 218, 222, 300};
  return std::ranges::find(kRefusals, static_cast<int>(code)) != kRefusals.end();
}

}  // namespace

Result<SharedModule> GpuModule::load(SharedDevice device, std::span<const std::byte> image) {
  std::shared_ptr<GpuModule> module(new GpuModule(std::move(device)));
  const Guest guest(*module->device_);
  const RelaxedCapture relaxed(*module->device_);
  const Driver& d = module->device_->driver();
  const Code code = d.cuModuleLoadData(&module->module_, image.data());
  if (Status ok = check(d, code, "cuModuleLoadData"); !ok)
    return fail(refuses_image(code) ? ErrorCode::bad_input : ErrorCode::device, ok.error().message);
  return SharedModule(std::move(module));
}

GpuModule::~GpuModule() {
  if (module_ == nullptr) return;
  const Guest guest(*device_);
  device_->driver().cuModuleUnload(module_);
}

Result<Function> GpuModule::function(const std::string& entry) const {
  const Guest guest(*device_);
  const RelaxedCapture relaxed(*device_);
  const Driver& d = device_->driver();
  Function found = nullptr;
  if (const Code code = d.cuModuleGetFunction(&found, module_, entry.c_str()); code != kSuccess)
    return fail(ErrorCode::device,
                fmt::format("cuModuleGetFunction of {}: {}", entry, describe(d, code)));
  return found;
}

Status launch(const GpuDevice& device, Function function, Dim3 grid, Dim3 block,
              std::span<void* const> parameters, Stream stream, int dynamic_shared_bytes) {
  const LaunchConfig config{{grid.x, grid.y, grid.z},
                            {block.x, block.y, block.z},
                            static_cast<unsigned>(dynamic_shared_bytes),
                            stream,
                            nullptr,
                            0};
  const Guest guest(device);
  return check(device.driver(),
               device.driver().cuLaunchKernelEx(&config, function,
                                                const_cast<void**>(parameters.data()), nullptr),
               "cuLaunchKernelEx");
}

KilnGpuArgs gpu_args(const Problem& problem, const Operands& operands) {
  auto args = kernel_args<KilnGpuArgs>(problem, operands);
  take_host_values(problem.gemm, args);
  return args;
}

void take_host_values(const Gemm& gemm, KilnGpuArgs& args) {
  [[maybe_unused]] const Status copied =
      take_host_values(gemm, args, [](const void* from, void* to, std::size_t bytes) {
        std::memcpy(to, from, bytes);
        return Status{};
      });
}

void point_to_host_values(const Gemm& gemm, const KilnGpuArgs& args, Operands& operands) {
  const auto all = gemm.epilogue.expression.operands();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].host) operands.extra[i] = &args.extra[i];
}

KilnGpuArgs step_args(const GpuLaunch& launch, const KilnGpuArgs& args) {
  KilnGpuArgs own = args;
  for (std::size_t i = 0; i < launch.values.size(); ++i) {
    const auto& [at, ld, stride, line_at, line_stride] = launch.values[i];
    if (at < 0) continue;
    own.reduced[i] = args.outputs[i];
    if (line_at >= 0) {
      own.reduced[i] = static_cast<std::byte*>(args.workspace) + line_at;
      own.reduced_stride[i] = line_stride;
    }
    own.outputs[i] = static_cast<std::byte*>(args.workspace) + at;
    own.output_ld[i] = ld, own.output_stride[i] = stride;
  }
  if (launch.in_place_of_d >= 0) {
    const auto i = static_cast<std::size_t>(launch.in_place_of_d);
    std::swap(own.d, own.outputs[i]);
    std::swap(own.ldd, own.output_ld[i]);
    std::swap(own.stride_d, own.output_stride[i]);
  }
  if (launch.product_at == 0) return own;
  own.sums = args.d, own.ld_sums = args.ldd;
  own.sums_c = args.c, own.ld_sums_c = args.ldc;
  own.sums_beta = args.beta;
  own.c = own.d = static_cast<std::byte*>(args.workspace) + launch.product_at;
  own.ldc = own.ldd = args.n;
  own.beta = 0;
  return own;
}

std::array<const void*, kMostMaps> map_addresses(const GpuLaunch& launch, const KilnGpuArgs& args) {
  const auto aligned = [](const void* at) {
    return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(at) / 16 * 16);
  };
  const std::array named{args.a,
                         args.b,
                         static_cast<const void*>(args.d),
                         static_cast<const void*>(args.workspace),
                         args.scale_a,
                         args.scale_b,
                         aligned(args.residual)};
  static_assert(named.size() == static_cast<std::size_t>(MapOperand::extra));
  std::array<const void*, kMostMaps> out{};
  for (std::size_t i = 0; i < launch.maps.size(); ++i) {
    const auto which = static_cast<std::size_t>(launch.maps[i].operand);
    out[i] = which < named.size() ? named[which] : aligned(args.extra[which - named.size()]);
  }
  return out;
}

void read_chunk(const GpuLaunch& launch, const KilnGpuArgs& args, std::int64_t first,
                ListChunk& chunk) {
  static_assert(sizeof(KilnListEntry) == sizeof(ListEntry));
  static_assert(offsetof(KilnListEntry, scale_a) == kPlainEntryBytes &&
                offsetof(ListEntry, scale_a) == kPlainEntryBytes);
  chunk.first = first;
  chunk.count = std::min<std::int64_t>(args.batch - first, launch.entries_of_chunk());
  const auto bytes = static_cast<std::size_t>(launch.entry_bytes);
  const auto* const list = static_cast<const ListEntry*>(args.groups) + first;
  for (std::int64_t i = 0; i < chunk.count; ++i)
    std::memcpy(chunk.entries + static_cast<std::size_t>(i) * bytes, list + i, bytes);
}

Result<GpuKernel> GpuKernel::make(SharedModule module, GpuLaunch launch) {
  if (launch.maps.size() > kMostMaps)
    return fail(ErrorCode::internal, fmt::format("a launch has {} tensor maps: at most {} are kept",
                                                 launch.maps.size(), kMostMaps));
  GpuKernel kernel(std::move(module), std::move(launch));
  for (const GpuStep& step : kernel.launch_.steps)
    if (Status ok = kernel.bind(step); !ok) return tl::unexpected(ok.error());
  return kernel;
}

Status GpuKernel::bind(const GpuStep& described) {
  const auto function = module_->function(described.entry);
  if (!function) return tl::unexpected(function.error());
  Step step{.function = *function, .maps = described.maps, .first_entry = described.first_entry};
  LaunchConfig& config = step.config;
  const auto put = [](unsigned(&to)[3], const Dim3& from) {
    to[0] = from.x, to[1] = from.y, to[2] = from.z;
  };
  put(config.grid, described.grid);
  put(config.block, described.block);
  config.dynamic_shared_bytes = static_cast<unsigned>(described.dynamic_shared_bytes);
  if (described.cluster.count() > 1) {
    LaunchAttribute& cluster = step.attributes[config.attribute_count++];
    cluster.id = LaunchAttribute::cluster_dimension;
    put(cluster.value.cluster, described.cluster);
  }
  if (described.overlaps_previous) {
    LaunchAttribute& overlap = step.attributes[config.attribute_count++];
    overlap.id = LaunchAttribute::programmatic_stream_serialization;
    overlap.value.allowed = 1;
  }
  const Guest guest(*device());
  const RelaxedCapture relaxed(*device());
  const Driver& d = device()->driver();
  const auto set = [&](FunctionAttribute attribute, int value, const char* what) -> Status {
    if (const Code code = d.cuFuncSetAttribute(step.function, attribute, value); code != kSuccess)
      return fail(ErrorCode::device,
                  fmt::format("cuFuncSetAttribute of {} = {}: {}", what, value, describe(d, code)));
    return {};
  };
  if (described.dynamic_shared_bytes > 0)
    if (Status ok = set(FunctionAttribute::max_dynamic_shared, described.dynamic_shared_bytes,
                        "dynamic shared bytes");
        !ok)
      return ok;
  if (described.cluster.count() > kPortableCluster)
    if (Status ok = set(FunctionAttribute::non_portable_cluster, 1, "cluster size"); !ok) return ok;
  steps_.push_back(std::move(step));
  return {};
}

Status GpuKernel::encode(const KilnGpuArgs& args, std::span<KilnTensorMap> maps) const {
  constexpr std::array<std::uint32_t, TensorMapSpec::kMaxRank> kOnes{1, 1, 1, 1, 1};
  const Driver& d = device()->driver();
  const auto addresses = map_addresses(launch_, step_args(launch_, args));
  for (std::size_t i = 0; i < launch_.maps.size(); ++i) {
    const TensorMapSpec& spec = launch_.maps[i];
    if (d.cuTensorMapEncodeTiled == nullptr)
      return fail(ErrorCode::device, "the NVIDIA driver has no cuTensorMapEncodeTiled");
    const auto* const address = static_cast<const std::byte*>(addresses[i]) + spec.offset;
    const Code code = d.cuTensorMapEncodeTiled(
        &maps[i], kElementCodes[static_cast<std::size_t>(spec.element)],
        static_cast<std::uint32_t>(spec.rank), const_cast<std::byte*>(address), spec.dims.data(),
        spec.strides.data(), spec.box.data(), kOnes.data(), kNone, static_cast<int>(spec.swizzle),
        static_cast<int>(spec.promotion), kNone);
    if (code != kSuccess)
      return fail(ErrorCode::device,
                  fmt::format("cuTensorMapEncodeTiled of map {}: {}", i, describe(d, code)));
  }
  return {};
}

Status GpuKernel::enqueue(const KilnGpuArgs& args, std::span<const KilnTensorMap> maps,
                          Stream stream) const {
  const Driver& d = device()->driver();
  std::array<void*, kMostMaps + 2> parameters{const_cast<KilnGpuArgs*>(&args)};
  KilnGpuArgs own;
  if (launch_.redirects()) {
    own = step_args(launch_, args);
    parameters[0] = &own;
  }
  for (const Step& step : steps_) {
    for (std::size_t i = 0; i < step.maps.size(); ++i)
      parameters[i + 1] = const_cast<KilnTensorMap*>(&maps[static_cast<std::size_t>(step.maps[i])]);
    ListChunk chunk;
    if (step.first_entry >= 0) {
      read_chunk(launch_, args, step.first_entry, chunk);
      parameters[step.maps.size() + 1] = &chunk;
    }
    LaunchConfig config = step.config;
    config.stream = stream;
    config.attributes = const_cast<LaunchAttribute*>(step.attributes);
    if (const Code code = d.cuLaunchKernelEx(&config, step.function, parameters.data(), nullptr);
        code != kSuccess) [[unlikely]]
      return check(d, code, "cuLaunchKernelEx");
  }
  return {};
}

std::vector<GpuKernel::BareLaunch> GpuKernel::bare_launches(const KilnGpuArgs& args,
                                                            std::span<const KilnTensorMap> maps,
                                                            Stream stream) const {
  std::vector<BareLaunch> launches;
  for (const Step& step : steps_) {
    BareLaunch& bare = launches.emplace_back();
    bare.function = step.function;
    bare.config = step.config;
    bare.config.stream = stream;
    bare.config.attributes = const_cast<LaunchAttribute*>(step.attributes);
    bare.parameters.push_back(const_cast<KilnGpuArgs*>(&args));
    for (const int map : step.maps)
      bare.parameters.push_back(const_cast<KilnTensorMap*>(&maps[static_cast<std::size_t>(map)]));
    if (step.first_entry < 0) continue;
    bare.chunk = std::make_shared<ListChunk>();
    read_chunk(launch_, args, step.first_entry, *bare.chunk);
    bare.parameters.push_back(bare.chunk.get());
  }
  return launches;
}

Status GpuKernel::run(const KilnGpuArgs& args, Stream stream) const {
  std::array<KilnTensorMap, kMostMaps> maps;
  const Guest guest(*device());
  if (Status ok = encode(args, maps); !ok) return ok;
  return enqueue(args, maps, stream);
}

}  // namespace kiln::gpu

// The loader of stored kernels: what it accepts, what it refuses, and that it needs no compiler.
#include "runtime/cpu/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "runtime/cpu/host_compiler.h"
#include "support/kernel_source.h"
#include "support/no_descriptors.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

using Image = std::vector<std::byte>;

std::string refusal(const Image& image) {
  const auto kernel = HostKernel::load(image);
  if (kernel.has_value()) return "accepted";
  EXPECT_EQ(kernel.error().code, ErrorCode::bad_input) << "the image, not the machine";
  return kernel.error().message;
}

std::string mapped_files() {
  std::ifstream maps("/proc/self/maps");
  return {std::istreambuf_iterator<char>(maps), {}};
}

bool llvm_is_mapped() {
  const std::string files = mapped_files();
  return files.find("libLLVM") != std::string::npos ||
         files.find("libclang") != std::string::npos ||
         files.find("libkiln_clang") != std::string::npos;
}

// What another program does with a stored image: load, run, and look at what is mapped. The exit
// code says how far it came.
int run_stored(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (llvm_is_mapped()) return 10;
  const auto kernel = HostKernel::load(std::as_bytes(std::span(bytes)));
  if (!kernel) return 11;
  float d = 0;
  KilnArgs args{};
  args.d = &d;
  kernel->gemm(&args, 0, 1);
  if (d != 7.0F) return 12;
  if (mapped_files().find("kiln-kernel-") == std::string::npos) return 13;
  return llvm_is_mapped() ? 14 : 0;
}

TEST(HostKernelTest, RefusesWhatIsNoElfObject) {
  EXPECT_THAT(refusal({}), HasSubstr("0 bytes are too few"));
  EXPECT_THAT(refusal(Image(4096, std::byte{0x5a})), HasSubstr("no ELF magic"));
}

TEST(HostKernelTest, RefusesAProgram) {
  // This test itself: an ELF object of this machine, whole, but without the entry points; a
  // position-independent program even passes for a shared object until the dynamic linker looks.
  std::ifstream self("/proc/self/exe", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(self), {}};
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  EXPECT_THAT(refusal(Image(data, data + bytes.size())), HasSubstr("kernel image: "));
}

#ifdef KILN_HAS_LLVM

Image compiled(const Source& source) {
  const auto compiler = host_compiler();
  if (!compiler) {
    ADD_FAILURE() << compiler.error().message;
    return {};
  }
  auto binary = (*compiler)->compile(source);
  if (!binary) {
    ADD_FAILURE() << binary.error().message;
    return {};
  }
  return std::move(binary->image);
}

HostKernel loaded(const Source& source) { return HostKernel::load(compiled(source)).value(); }

TEST(HostKernelTest, RunsWhatWasCompiled) {
  const auto kernel = loaded(
      test::kernel_source("for (long long i = thread; i < args->n; i += threads)\n"
                          "  ((double*)args->d)[i] = args->alpha * ((const double*)args->a)[i];",
                          4096));
  std::array<double, 5> a{1, 2, 3, 4, 5}, d{};
  KilnArgs args{};
  args.a = a.data();
  args.d = d.data();
  args.n = 5;
  args.alpha = 2;
  kernel.gemm(&args, 0, 2);
  EXPECT_THAT(d, ::testing::ElementsAre(2, 0, 6, 0, 10));
  kernel.gemm(&args, 1, 2);
  EXPECT_THAT(d, ::testing::ElementsAre(2, 4, 6, 8, 10));
  EXPECT_EQ(kernel.workspace_bytes(&args, 2), 4096);
}

TEST(HostKernelTest, TheProcessSuppliesLibcAndLibm) {
  // Volatile sizes and data keep the calls from being folded away.
  const auto kernel = loaded(
      test::kernel_source("float* d = (float*)args->d; const float* a = (const float*)args->a;\n"
                          "memset(d, 0, args->n * 4);\n"
                          "d[0] = expf(a[0]); d[1] = erff(a[0]); d[2] = tanhf(a[0]);\n"
                          "memcpy(d + 3, a, args->k * 4);",
                          0,
                          "float expf(float); float erff(float); float tanhf(float);\n"
                          "void* memset(void*, int, unsigned long);\n"
                          "void* memcpy(void*, const void*, unsigned long);"));
  const std::array<float, 2> a{0.75F, 3.0F};
  std::array<float, 6> d{9, 9, 9, 9, 9, 9};
  KilnArgs args{};
  args.a = a.data();
  args.d = d.data();
  args.n = 6;
  args.k = 2;
  kernel.gemm(&args, 0, 1);
  EXPECT_FLOAT_EQ(d[0], std::exp(0.75F));
  EXPECT_FLOAT_EQ(d[1], std::erf(0.75F));
  EXPECT_FLOAT_EQ(d[2], std::tanh(0.75F));
  EXPECT_EQ(d[3], 0.75F);
  EXPECT_EQ(d[4], 3.0F);
  EXPECT_EQ(d[5], 0.0F);
}

TEST(HostKernelTest, KernelsDoNotMeet) {
  // The names and, once the first is gone, the descriptor are the same for each; the dynamic linker
  // would return the older object for an equal path.
  const auto first = compiled(test::kernel_source("", 1));
  const auto second = compiled(test::kernel_source("", 2));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(HostKernel::load(first)->workspace_bytes(nullptr, 1), 1);
    const auto kept = HostKernel::load(first).value();
    EXPECT_EQ(HostKernel::load(second)->workspace_bytes(nullptr, 1), 2);
    EXPECT_EQ(kept.workspace_bytes(nullptr, 1), 1);
  }
  // Two loads of one image are two objects: a static of one is not the other's.
  const auto counter =
      compiled(test::kernel_source("*(int*)args->d = ++count;", 0, "static int count;"));
  const auto one = HostKernel::load(counter).value();
  const auto other = HostKernel::load(counter).value();
  int count = 0;
  KilnArgs args{};
  args.d = &count;
  one.gemm(&args, 0, 1);
  one.gemm(&args, 0, 1);
  EXPECT_EQ(count, 2);
  other.gemm(&args, 0, 1);
  EXPECT_EQ(count, 1);
}

TEST(HostKernelTest, LoadingKeepsNoDescriptorAndNoMemory) {
  const auto image = compiled(test::kernel_source("", 1));
  const auto descriptors = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator{});
  };
  const auto before = descriptors();
  {
    const auto kernel = HostKernel::load(image).value();
    EXPECT_EQ(descriptors(), before);
    EXPECT_THAT(mapped_files(), HasSubstr("kiln-kernel-"));
  }
  EXPECT_THAT(mapped_files(), ::testing::Not(HasSubstr("kiln-kernel-")));
}

TEST(HostKernelTest, MovingCarriesTheCode) {
  auto a = loaded(test::kernel_source("", 1));
  auto b = loaded(test::kernel_source("", 2));
  HostKernel c(std::move(a));
  EXPECT_EQ(a.gemm, nullptr);
  EXPECT_EQ(c.workspace_bytes(nullptr, 1), 1);
  c = std::move(b);
  EXPECT_EQ(c.workspace_bytes(nullptr, 1), 2);
}

TEST(HostKernelTest, ARefusalOfTheMachineIsNotTheImages) {
  const Image image = compiled(test::kernel_source("", 1));
  ASSERT_TRUE(HostKernel::load(image));
  const auto kernel = [&] {
    const test::NoDescriptors none;
    return HostKernel::load(image);
  }();
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().code, ErrorCode::device) << kernel.error().message;
  EXPECT_TRUE(HostKernel::load(image));
}

TEST(HostKernelTest, RefusesACutImage) {
  const auto whole = compiled(test::kernel_source("", 1));
  ASSERT_TRUE(HostKernel::load(whole));
  for (std::size_t size = 0; size < whole.size(); size += 7)
    EXPECT_FALSE(HostKernel::load(std::span(whole).first(size))) << size << " of " << whole.size();
  EXPECT_THAT(refusal(Image(whole.begin(), whole.begin() + 100)),
              HasSubstr("7 program headers at byte 64 do not fit its 100 bytes"));
  EXPECT_THAT(refusal(Image(whole.begin(), whole.end() - 1)), HasSubstr("section headers"));
}

TEST(HostKernelTest, RefusesAnotherMachinesCode) {
  auto source = test::kernel_source("");
  source.flags = {
    "-std=c++20",
    "-O2",
#if defined(__x86_64__)
    "--target=aarch64-linux-gnu"
  };
#else
    "--target=x86_64-linux-gnu"
  };
#endif
  EXPECT_THAT(refusal(compiled(source)), HasSubstr("made for ELF machine"));
}

TEST(HostKernelTest, NamesTheMissingEntryPoint) {
  EXPECT_THAT(refusal(compiled(test::plain_source("extern \"C\" int answer() { return 42; }"))),
              HasSubstr("no entry point kiln_gemm"));
  EXPECT_THAT(refusal(compiled(test::plain_source("extern \"C\" void kiln_gemm() {}"))),
              HasSubstr("no entry point kiln_workspace_bytes"));
}

TEST(HostKernelTest, NamesASymbolNobodyHas) {
  EXPECT_THAT(refusal(compiled(
                  test::kernel_source("kiln_test_nowhere();", 0, "void kiln_test_nowhere();"))),
              HasSubstr("kiln_test_nowhere"));
}

TEST(HostKernelTest, AStoredImageRunsWithoutLlvm) {
  const auto here = open_host_compiler(host_compiler_paths()).value();
  const auto image = here->compile(test::kernel_source("*(float*)args->d = 7;")).value().image;
  EXPECT_TRUE(llvm_is_mapped()) << "the check that follows would prove nothing";
  const fs::path path =
      fs::temp_directory_path() / ("kiln_kernel_test." + std::to_string(getpid()));
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(image.data()), static_cast<long>(image.size()));
  const std::string argument = path.string();
  const char* arguments[] = {"kernel_test", "--run-stored", argument.c_str(), nullptr};
  pid_t child = 0;
  ASSERT_EQ(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr,
                        const_cast<char* const*>(arguments), environ),
            0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  fs::remove(path);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

#endif  // KILN_HAS_LLVM

}  // namespace

}  // namespace kiln

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--run-stored") == 0) return kiln::run_stored(argv[2]);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

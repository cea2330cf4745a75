// AOCL-BLAS as far as kiln's benchmark asks it what it is. As the real one, it ends the process
// when it is initialised with a BLIS_ARCH_TYPE that it does not know. FAKE_AOCL_INTEGER_BITS is the
// size of its integers. Its products are those of tests/fakes/blas.cpp, which is compiled into it.
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {
std::int64_t threads_set = 0;
}

extern "C" {

void bli_init() {
  const char* type = std::getenv("BLIS_ARCH_TYPE");
  if (type && std::string_view(type) == "0") std::abort();
}
const char* bli_info_get_version_str() { return "AOCL-BLAS 5.9.1 Build 20260101"; }
std::int64_t bli_info_get_blas_int_type_size() {
  const char* bits = std::getenv("FAKE_AOCL_INTEGER_BITS");
  return bits ? std::atoi(bits) : 32;
}
int bli_arch_query_id() { return 8; }
const char* bli_arch_string(int id) { return id == 8 ? "zen5" : "error"; }
void bli_thread_set_num_threads(std::int64_t count) { threads_set = count; }

}  // extern "C"

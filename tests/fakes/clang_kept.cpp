// The in-process compiler as most tests have it: the real one, whose results are kept
// (fakes/kept_compiles.h).
#include "fakes/kept_compiles.h"

using kiln::test::Compiled;

#pragma GCC visibility push(default)
extern "C" {

int kiln_clang_abi() { return kKilnClangAbi; }
const char* kiln_clang_version() { return kiln::test::real_version(); }

void kiln_clang_compile(const KilnClangJob* job, KilnClangResult* result) {
  *result = (new Compiled(kiln::test::compiled(*job)))->as_result();
}

void kiln_clang_free(KilnClangResult* result) { delete static_cast<Compiled*>(result->owner); }
}
#pragma GCC visibility pop

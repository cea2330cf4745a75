#include "cli/commands/db_class.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "cache/exchange/class_maker.h"
#include "cache/keys.h"
#include "cache/printable.h"
#include "cache/records/class_kernels.h"
#include "cli/output/report.h"
#include "runtime/cpu/cpu.h"

namespace kiln::cli {

const Manual kClassManual{
    "class", "Make kernels that serve every CPU with some instructions: portable, avx2, avx512, …",
    "  For each class named: a few kernels for each kind of problem (types, layouts, packed B), "
    "with\n"
    "  sizes, pitches and epilogue as arguments. Each is compiled, proved in a worker over all "
    "sizes\n"
    "  and several numbers of threads, and stored in the database under the class. A program that\n"
    "  ships the file needs no compiler for any problem on any such CPU: export it, and name it "
    "in\n"
    "  KILN_DB_PATH. A class takes what classes within it lack: avx512_bf16 has kernels for bf16 "
    "alone.\n"
    "  Kernels that the database has are left as they are, so that an interrupted run continues.\n"
    "  With --shape or --file, only the kinds of those problems. The CPU must have the "
    "instructions.",
    "  kiln db class portable avx2 avx512 avx512_vnni avx512_bf16 --db x86.db\n"
    "  kiln db class avx2 --shape \"fp32 N T 1 1 1\" --db app.db\n"
    "  kiln db export --db x86.db x86-64.kiln"};

namespace {

Result<DeviceCaps> class_here(const std::string& name) {
  auto of_class = device_class(name);
  if (!of_class) return of_class;
  const auto here = detect_cpu();
  if (!here) return here;
  const std::vector<DeviceCaps> classes = classes_of(*here);
  if (std::ranges::find(classes, *of_class) != classes.end()) return of_class;
  return fail(ErrorCode::device,
              fmt::format("class = \"{}\": this CPU lacks its instructions, and kernels are proved "
                          "where they run",
                          name));
}

/// Of the list, what serves problems like the shapes.
Status keep_kinds(std::vector<ClassKernel>& list, const ShapeOptions& shapes) {
  if (!shapes.any()) return {};
  const auto asked = shapes.collect();
  if (!asked) return tl::unexpected(asked.error());
  std::set<std::string> kinds;
  for (const Shape& shape : *asked) kinds.insert(class_text(class_problem(shape.gemm)));
  std::erase_if(list, [&](const ClassKernel& kernel) {
    return !kinds.contains(class_text(class_problem(kernel.gemm)));
  });
  return {};
}

void print_report(const Session& session, const std::string& name, const ClassReport& report,
                  double seconds) {
  if (session.json) {
    print_json({{"class", name},
                {"kinds", report.kinds},
                {"made", report.made},
                {"there", report.there},
                {"same_code", report.same_code},
                {"failed", report.failed},
                {"seconds", seconds}});
    return;
  }
  for (const std::string& failed : report.failed) fmt::print("FAILED {}\n", printable_line(failed));
  fmt::print("{}: {} kinds of problems, {} kernels made, {} there before, {} failed, {:.0f} s\n",
             name, report.kinds, report.made, report.there, report.failed.size(), seconds);
}

}  // namespace

void ClassCommand::add_to(CLI::App& app) {
  app.add_option("classes", classes, "Classes of CPUs, by name")->required()->type_name("NAME");
  kinds.add_to(app);
  app.add_option("--jobs", jobs, "Kernels that are made at a time; 0 = one for each core")
      ->type_name("N")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

Result<Outcome> make_classes(const Session& session, const DatabaseOptions& database,
                             const ClassCommand& command) {
  std::vector<DeviceCaps> classes;
  for (const std::string& name : command.classes) {
    const auto of_class = class_here(name);
    if (!of_class) return tl::unexpected(of_class.error());
    classes.push_back(*of_class);
  }
  const auto compiler = host_compiler();
  if (!compiler) return tl::unexpected(compiler.error());
  const auto store = open_store(database);
  if (!store) return tl::unexpected(store.error());
  bool failed = false;
  for (const DeviceCaps& of_class : classes) {
    const std::string name(class_name(of_class));
    std::vector<ClassKernel> list = class_list(of_class);
    if (Status kept = keep_kinds(list, command.kinds); !kept) return tl::unexpected(kept.error());
    const auto start = std::chrono::steady_clock::now();
    auto bar = std::make_unique<CountReport>(name, static_cast<int>(list.size()));
    const auto report = make_class(
        **store, **compiler, of_class, list,
        {.jobs = command.jobs,
         .progress = [&](int done, int total) { bar->update(done, fmt::format("of {}", total)); },
         .cancelled = interrupted});
    bar.reset();
    if (!report) return tl::unexpected(report.error());
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    print_report(session, name, *report, spent.count());
    failed |= !report->failed.empty() || interrupted();
  }
  return failed ? Outcome::check_failed : Outcome::done;
}

}  // namespace kiln::cli

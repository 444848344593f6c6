#include "model_path.h"

#include <filesystem>
#include <system_error>

#include "errors.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* file_name = "runnel-demo-f16.gguf";

}  // namespace

std::string model_or_bundled(const std::string& path) {
  if (!path.empty()) return path;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path places[] = {
      program / file_name,                              // unpacked somewhere
      program / "cli" / "demo" / file_name,             // a build directory
      program / ".." / "share" / "runnel" / file_name,  // an installation, wherever it was moved
      fs::path(RUNNEL_DATADIR) / file_name,             // where it was to be installed
  };
  for (const fs::path& place : places) {
    if (fs::is_regular_file(place, error)) return place.lexically_normal().string();
  }
  throw Failure("the bundled model " + std::string(file_name) + " is neither beside the program nor in " +
                RUNNEL_DATADIR + "; give a model file");
}

}  // namespace cli

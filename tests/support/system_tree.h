// Trees of files by which Linux tells of itself, below a folder of their own.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/folder.h"

namespace runnel::test {

class SystemTree : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    write_bytes(root + path, text);
  }

  const Folder folder;
  const std::string root = folder.path().string();
};

}  // namespace runnel::test

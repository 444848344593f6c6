#include "lib/arch/family.h"

namespace runnel {

const Family* find_family(std::string_view name) {
#define X(family) \
  if (name == families::family.name) return &families::family;
  RUNNEL_FAMILIES(X)
#undef X
  return nullptr;
}

const char* family_names() {
#define X(family) ", " #family
  static constexpr char names[] = "" RUNNEL_FAMILIES(X);
#undef X
  return names + 2;
}

}  // namespace runnel

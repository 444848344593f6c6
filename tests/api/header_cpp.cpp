#include <runnel/runnel.h>
int main(void) { return runnel_version() == 0; }

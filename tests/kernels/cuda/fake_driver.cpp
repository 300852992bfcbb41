// A libcuda.so.1 without a GPU: reports no device, and accepts kernels without loading them. With it cuDNN
// makes whole plans for a device that is only described.
extern "C" {

enum { kSuccess = 0, kNoDevice = 100 };

int cuInit(unsigned /*flags*/) {
  return kNoDevice;
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
int cuDeviceGetCount(int* count) {
  *count = 0;
  return kSuccess;
}
int cuGetErrorString(int /*status*/, const char** words) {
  *words = "fake";
  return kSuccess;
}
int cuGetErrorName(int /*status*/, const char** words) {
  *words = "fake";
  return kSuccess;
}

static char kernel;  // something that is not null

int cuLibraryLoadData(void** library, ...) {
  *library = &kernel;
  return kSuccess;
}
int cuLibraryUnload(void* /*library*/) {
  return kSuccess;
}
int cuLibraryGetKernel(void** function, ...) {
  *function = &kernel;
  return kSuccess;
}

// Only looked up.
#define PLUMBLINE_ABSENT(name) \
  int name() {                 \
    return kNoDevice;          \
  }
PLUMBLINE_ABSENT(cuCtxGetCurrent)
PLUMBLINE_ABSENT(cuCtxGetDevice)
PLUMBLINE_ABSENT(cuCtxGetLimit)
PLUMBLINE_ABSENT(cuCtxPopCurrent)
PLUMBLINE_ABSENT(cuCtxPushCurrent)
PLUMBLINE_ABSENT(cuDeviceGet)
PLUMBLINE_ABSENT(cuDeviceGetAttribute)
PLUMBLINE_ABSENT(cuDevicePrimaryCtxRelease)
PLUMBLINE_ABSENT(cuDevicePrimaryCtxReset)
PLUMBLINE_ABSENT(cuDevicePrimaryCtxRetain)
PLUMBLINE_ABSENT(cuFuncGetAttribute)
PLUMBLINE_ABSENT(cuFuncSetAttribute)
PLUMBLINE_ABSENT(cuKernelGetAttribute)
PLUMBLINE_ABSENT(cuKernelSetAttribute)
PLUMBLINE_ABSENT(cuLaunchCooperativeKernel)
PLUMBLINE_ABSENT(cuLaunchKernel)
PLUMBLINE_ABSENT(cuLaunchKernelEx)
PLUMBLINE_ABSENT(cuLibraryLoadFromFile)
PLUMBLINE_ABSENT(cuLinkAddData)
PLUMBLINE_ABSENT(cuLinkAddData_v2)
PLUMBLINE_ABSENT(cuLinkAddFile_v2)
PLUMBLINE_ABSENT(cuLinkComplete)
PLUMBLINE_ABSENT(cuLinkCreate)
PLUMBLINE_ABSENT(cuLinkCreate_v2)
PLUMBLINE_ABSENT(cuLinkDestroy)
PLUMBLINE_ABSENT(cuMemcpyDtoH_v2)
PLUMBLINE_ABSENT(cuModuleGetFunction)
PLUMBLINE_ABSENT(cuModuleGetGlobal_v2)
PLUMBLINE_ABSENT(cuModuleLoadData)
PLUMBLINE_ABSENT(cuModuleLoadDataEx)
PLUMBLINE_ABSENT(cuModuleLoadFatBinary)
PLUMBLINE_ABSENT(cuModuleUnload)
PLUMBLINE_ABSENT(cuOccupancyMaxActiveBlocksPerMultiprocessor)
PLUMBLINE_ABSENT(cuOccupancyMaxPotentialClusterSize)
PLUMBLINE_ABSENT(cuStreamGetCtx)
PLUMBLINE_ABSENT(cuStreamSynchronize)
PLUMBLINE_ABSENT(cuTensorMapEncodeTiled)
#undef PLUMBLINE_ABSENT

}  // extern "C"

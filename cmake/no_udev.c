// Stands in for libudev in static builds: hwloc's archive calls these to learn a disk's model and
// serial number. Every one answers "none", which hwloc treats as a machine without udev.
struct udev;
struct udev_device;

struct udev* udev_new(void) {
  return 0;
}
struct udev* udev_unref(struct udev* context) {
  return (void)context, (struct udev*)0;
}

struct udev_device* udev_device_new_from_subsystem_sysname(struct udev* context,
                                                           const char* subsystem,
                                                           const char* sysname) {
  (void)context;
  (void)subsystem;
  (void)sysname;
  return 0;
}

const char* udev_device_get_property_value(struct udev_device* device, const char* key) {
  (void)device;
  (void)key;
  return 0;
}

struct udev_device* udev_device_unref(struct udev_device* device) {
  (void)device;
  return 0;
}

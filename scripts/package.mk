# The sources as a tarball, and a binary package for Debian; both the same bytes for the same commit.
DEB_B       := $(B)/deb
DEB_LIBDIR  := /usr/lib/$(shell $(CC) -print-multiarch 2>/dev/null)
DEB_MAKE     = $(MAKE) --no-print-directory B=$(DEB_B)/build DESTDIR=$(DEB_B)/root PREFIX=/usr LIBDIR=$(DEB_LIBDIR)

.PHONY: dist deb
dist:
	$(Q)mkdir -p $(B)
	$(Q)git archive --prefix=selfsample-$(VERSION)/ HEAD | gzip -9n >$(B)/selfsample-$(VERSION).tar.gz
	@echo $(B)/selfsample-$(VERSION).tar.gz

# Objects remember where they were made, unless told not to.
deb:
	$(Q)rm -rf $(DEB_B)/root $(DEB_B)/shlibs
	$(Q)$(DEB_MAKE) CFLAGS='$(CFLAGS) -ffile-prefix-map=$(CURDIR)=.' install
	$(Q)scripts/deb $(DEB_B)/root $(VERSION) $(DEB_B)

.PHONY: check-deb
check-deb: deb
	$(Q)scripts/check-deb $(DEB_B)/selfsample_$(VERSION)_*.deb $(DEB_B)

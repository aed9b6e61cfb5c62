-- renewed(now, own_boot, own_clock, drains): the values of a lease that is renewed at this time of this kernel's clock.
previous_renewal_at = iif(boot = own_boot AND clock = own_clock, renewed_at, NULL),
renewed_at = now,
expires_at = now + ttl,
boot = own_boot,
clock = own_clock,
renewals = renewals + 1,
is_draining = max(is_draining, drains)

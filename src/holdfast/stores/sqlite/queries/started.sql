-- Return the claim number through which the jobs of a lease have started together.
SELECT started FROM holdfast_leases WHERE id = :lease;

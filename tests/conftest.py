"""What every test shares."""

from hypothesis import settings

# A slow machine is not a failing property. Under CI=true Hypothesis chooses its own reproducible profile.
settings.register_profile("here", deadline=None)
if settings.get_current_profile_name() == "default":
    settings.load_profile("here")

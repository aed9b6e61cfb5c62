"""The URLs of buckets that are accepted, and the errors for all others, which show no secret."""

import pytest

from holdfast._core.bucket_url import BucketUrl, problems_of_bucket_url

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCY"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://jobs", BucketUrl(scheme="s3", bucket="jobs")),
        ("s3://jobs/shop/eu/", BucketUrl(scheme="s3", bucket="jobs", prefix="shop/eu")),
        (
            "s3://jobs?region=eu-central-1&profile=ops&broker=require&interval=250ms",
            BucketUrl(scheme="s3", bucket="jobs", region="eu-central-1", profile="ops", broker="require", interval=0.25),
        ),
        (
            "s3://jobs/a?endpoint=http://127.0.0.1:9000/",
            BucketUrl(scheme="s3", bucket="jobs", prefix="a", endpoint="http://127.0.0.1:9000"),
        ),
        (
            "s3://jobs?endpoint=https://x.r2.cloudflarestorage.com",
            BucketUrl(scheme="s3", bucket="jobs", endpoint="https://x.r2.cloudflarestorage.com", interval=1.0),
        ),
        ("gs://my_jobs/a", BucketUrl(scheme="gs", bucket="my_jobs", prefix="a", interval=1.0)),
        (
            "s3://jobs?writes_per_day=60000&writes_per_minute=600",
            BucketUrl(scheme="s3", bucket="jobs", writes=((600, 60.0), (60_000, 86_400.0))),
        ),
        ("gs://jobs?interval=2s", BucketUrl(scheme="gs", bucket="jobs", interval=2.0)),
        ("az://acme/jobs/a/b", BucketUrl(scheme="az", bucket="jobs", account="acme", prefix="a/b")),
        ("memory-object://test_1", BucketUrl(scheme="memory-object", bucket="test_1")),
    ],
)
def test_every_form_of_a_bucket_is_read(text: str, expected: BucketUrl) -> None:
    assert problems_of_bucket_url(text) == []
    assert BucketUrl.of(text) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("s3:/jobs", "its scheme is not one of"),
        ("ftp://jobs", "its scheme is not one of"),
        ("s3://[", "cannot be read"),
        ("s3://", "cannot be the name of a bucket"),
        ("s3://Jobs", "cannot be the name of a bucket"),
        ("az://acme", "cannot be the name of a container"),
        ("az://A/jobs", "an Azure account is"),
        ("s3://jobs/a/../b", "a prefix consists of"),
        ("s3://jobs/a//b", "a prefix consists of"),
        ("s3://jobs/a%2Fb", "a prefix consists of"),
        ("memory-object://a/b", "has a name only"),
        ("s3://jobs#a", "nothing follows a #"),
        ("s3://jobs?region", "write options as name=value"),
        (
            "s3://jobs?regoin=eu",
            "there is no option 'regoin' for s3://; use endpoint, profile, region, broker, interval, writes_per_minute, writes_per_day",
        ),
        (
            "gs://jobs?region=eu",
            "there is no option 'region' for gs://; use endpoint, broker, interval, writes_per_minute, writes_per_day",
        ),
        ("s3://jobs?region=a&region=b", "given twice"),
        ("s3://jobs?region=a/b", "region= is a name"),
        ("s3://jobs?endpoint=localhost:9000", "write endpoint=https://host:port"),
        ("s3://jobs?endpoint=http://a:99999", "write endpoint=https://host:port"),
        ("s3://jobs?endpoint=http://a/path", "write endpoint=https://host:port"),
        ("s3://jobs?broker=maybe", "broker= is one of auto, require, never"),
        ("s3://jobs?interval=soon", "interval= is a duration"),
        ("s3://jobs?writes_per_minute=1", "writes_per_minute= is a whole number of writes"),
        ("s3://jobs?writes_per_day=many", "writes_per_day= is a whole number of writes"),
    ],
)
def test_a_wrong_url_is_an_error_that_names_the_remedy(text: str, problem: str) -> None:
    (found,) = problems_of_bucket_url(text)
    assert problem in found


def test_all_problems_are_reported_at_once() -> None:
    assert len(problems_of_bucket_url("s3://J/a//b?regoin=eu&broker=x")) == 4


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        (f"s3://AKIA:{SECRET}@jobs/shop", "set AWS_ACCESS_KEY_ID"),
        (f"s3://jobs?secret_access_key={SECRET}", "set AWS_ACCESS_KEY_ID"),
        (f"s3://jobs?aws_session_token={SECRET}", "set AWS_ACCESS_KEY_ID"),
        (f"s3://jobs?endpoint=https://me:{SECRET}@host", "set AWS_ACCESS_KEY_ID"),
        (f"az://acme/jobs?sig={SECRET}", "set AZURE_STORAGE_ACCOUNT_KEY"),
        (f"gs://jobs?service_account_key={SECRET}", "set GOOGLE_APPLICATION_CREDENTIALS"),
        (f"s3://jobs?{SECRET}=1", "there is no option of that name"),
        (f"s3://jobs?region={SECRET}/{SECRET}", "region= is a name"),
        (f"s3://jobs?interval={SECRET}", "interval= is a duration"),
        (f"s3://jobs?broker={SECRET}", "broker= is one of"),
        (f"s3://jobs?endpoint={SECRET}", "write endpoint="),
    ],
)
def test_a_secret_in_a_url_is_refused_with_the_remedy_and_not_shown(text: str, remedy: str) -> None:
    problems = problems_of_bucket_url(text)
    assert remedy in problems[0]
    assert SECRET not in "".join(problems)

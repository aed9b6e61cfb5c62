"""Jobs in Django's admin: a list with filters and actions, through the App, so of any store. The story of a job is on the dashboard."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, reverse

from holdfast._core.job import State
from holdfast._core.view import JobView
from holdfast._engine.client.acting import Acting, acting
from holdfast.app import App
from holdfast.errors import HoldfastError
from holdfast.integrations.django.models import Jobs
from holdfast.integrations.django.wiring import project_app

PAGE: Final = 50
FILTERS: Final = ("state", "queue", "task")
ACTIONS: Final[Mapping[str, str]] = {"cancel": "operate", "retry": "operate", "delete": "delete"}
"""The permission that each action needs."""


@admin.register(Jobs)
class JobsAdmin(admin.ModelAdmin):  # type: ignore[misc]
    """The list. Payloads, results and messages of errors are not on it."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Return whether the user sees the list among the models."""
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether the user may look at jobs."""
        return bool(request.user.has_perm("holdfast.view"))

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return false: your code enqueues."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return false: jobs change by actions only."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return false: Django would look for rows to delete."""
        return False

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> None:
        """Find nothing: the model has no table, so the pages on rows that Django adds would fail where they ask for one."""

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show a page of jobs, the newest first, or act on those that are ticked."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        app = project_app()
        if request.method == "POST":
            self._act(request, app)
            return HttpResponseRedirect(request.get_full_path())
        given = {name: request.GET[name] for name in FILTERS if request.GET.get(name)}
        jobs, more = self._page(request, app, given)
        context = {
            **self.admin_site.each_context(request),
            "title": "Jobs",
            "opts": self.model._meta,
            "jobs": [{"job": job, "link": _story_of(job)} for job in jobs],
            "states": [str(each) for each in State],
            "given": given,
            "more": more,
            "actions": [name for name, needed in ACTIONS.items() if request.user.has_perm(f"holdfast.{needed}")],
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/holdfast/jobs/change_list.html", context)

    def change_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> HttpResponse:
        """Lead to the story of the job, or to the list if the dashboard is not mounted."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return HttpResponseRedirect(_page_of(object_id) or reverse("admin:holdfast_jobs_changelist"))

    def _page(self, request: HttpRequest, app: App, given: Mapping[str, Any]) -> tuple[list[JobView], str | None]:
        """Return a page of jobs, and the id behind which the next page begins, if there is one."""
        try:
            jobs = app.jobs.list(limit=PAGE + 1, cursor=request.GET.get("cursor") or None, **given)
        except HoldfastError as error:
            messages.error(request, str(error))
            return [], None
        return jobs[:PAGE], str(jobs[PAGE - 1].id) if len(jobs) > PAGE else None

    def _act(self, request: HttpRequest, app: App) -> None:
        """Do what was asked to the jobs that are ticked, and record who did."""
        name, ids = request.POST.get("action", ""), request.POST.getlist("job")
        if name not in ACTIONS or not request.user.has_perm(f"holdfast.{ACTIONS[name]}"):
            raise PermissionDenied
        verbs: Mapping[str, Callable[..., Any]] = {"cancel": app.jobs.cancel, "retry": app.jobs.retry, "delete": app.jobs.delete}
        try:
            with acting(Acting(who=request.user.get_username(), origin="django admin")):
                found = verbs[name](ids) if ids else {}
        except HoldfastError as error:
            messages.error(request, str(error))
        else:
            states = ", ".join(sorted({str(state) for state in found.values()}))
            messages.success(request, f"{name}: {len(ids)} jobs" + (f", now {states}" if states else ""))


def _story_of(job: JobView) -> str | None:
    return _page_of(str(job.id))


def _page_of(id: str) -> str | None:
    try:
        return str(reverse("holdfast:page", args=[f"jobs/{id}"]))
    except NoReverseMatch:  # the dashboard is not mounted
        return None

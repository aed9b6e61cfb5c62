"""Pictures of workflows, as text, SVG and Mermaid: pure functions of what a user reads."""

"""First words of invented user turns: they steer self-play towards the kinds of request that people send."""

from __future__ import annotations

OPENINGS = (
    "", "", "", "", "",
    "Write a Python function", "Complete this function:\n\ndef ", "Fix the bug in this code:", "Explain what this code does:",
    "Write a SQL query", "Rewrite this", "Summarize the following text:", "Summarize this article in two sentences:",
    "What is", "Who", "Why do", "How does", "How can I", "Where", "When did", "Is it true that", "Name three",
    "Explain the difference between", "Describe", "Define", "Compare", "List the", "Give me a recipe for",
    "Solve this problem step by step:", "A train", "If I have", "A shop sells", "Calculate", "How many",
    "Translate to French:", "Translate the following sentence into Spanish:", "Translate into German:", "Translate into Chinese:",
    "请", "什么是", "Use the passage below to answer the question.", "Based on the following context,", "According to the text",
    "Write a short story about", "Continue the story:", "Write an essay about", "Write a letter to", "Write a poem",
    "Write a blog post", "Help me plan", "I am", "My", "Can you recommend", "Hi!", "I need advice about", "Let's",
    "Correct the grammar:", "Proofread this text:", "Extract all", "Convert this list to", "Return the following unchanged except",
    "Brainstorm", "Draft an email", "Generate a JSON", "What are the steps to", "Create a table of",
)
